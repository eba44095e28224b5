"""Repository files other than code: registry hosts, pinned versions, lint rules, import contracts."""

from __future__ import annotations

import re
import tomllib

from tests.support.sources import ROOT, tracked_files

# Written in two parts, so that this file does not contain the names.
_REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("repo1", "maven", "org"),
        ("maven", "org"),
        ("deb", "debian", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
    )
)


def test_no_file_names_the_host_of_a_registry() -> None:
    """The machine configures the mirror of a registry, so no tracked file names one."""
    found = [
        (file.relative_to(ROOT).as_posix(), host)
        for file in tracked_files()
        for text in [file.read_text("utf-8", errors="ignore")]
        for host in _REGISTRY_HOSTS
        if host in text
    ]
    assert found == []


def test_constraints_are_pins_and_nothing_else() -> None:
    """`constraints.txt` has lines of name==version, sorted, one a package."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    names = [line.partition("==")[0].lower() for line in lines]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!-]*", line)] == []
    assert names == sorted(set(names), key=lambda name: name.replace("-", "_"))


def test_every_direct_dependency_is_pinned() -> None:
    """Every dependency in pyproject.toml has a line in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(entry for extra in project["optional-dependencies"].values() for entry in extra),
    ]
    names = {re.split(r"[\[<>=]", entry)[0].lower().replace("-", "_") for entry in wanted} - {"sluice_spark"}
    pinned = {line.partition("==")[0].lower().replace("-", "_") for line in (ROOT / "constraints.txt").open()}
    assert sorted(names - pinned) == []


def test_every_lint_rule_that_is_off_says_why() -> None:
    """Each rule that pyproject.toml ignores has a comment on its line."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    section = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.flake8-self]")]
    rules = [line for line in section.splitlines() if re.match(r'    "[A-Z]+[0-9]*",', line)]
    assert [line for line in rules if not re.search(r"# \S+", line)] == []
    assert len(rules) > 10


def test_the_walls_have_no_holes() -> None:
    """The layers contract is exhaustive, and no import is ignored."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    assert [contract for contract in linter["contracts"] if "ignore_imports" in contract] == []
    layers = [contract for contract in linter["contracts"] if contract["type"] == "layers"]
    assert [contract for contract in layers if contract["exhaustive"] is not True] == []
    assert [contract["id"] for contract in layers] == [
        "rooms", "engine", "declare", "graph", "ingest", "recovery", "session", "sources", "cloud_files", "flows",
        "cdc", "deploy", "run", "sandbox", "server",
    ]  # fmt: skip
