"""What pages of the documentation name exists: files, modules, classes, settings."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

import pytest

from framework.declare.pipeline_spec import _FLAGS, _MAPS, _TEXTS
from framework.declare.workspace.local_file import KEYS
from framework.recovery.doctor.diagnoses import WITHOUT_FAULT, every_diagnosis
from tests.support.sources import ROOT, sources, tracked_files

LEDGER_HELD = "LEDGER_HELD"
"""The diagnosis of the dialect of the tests."""
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in tracked_files()
    if path.suffix == ".md" and "bench" not in path.relative_to(ROOT).parts
}
_PATH = re.compile(r"`((?:framework|tests|docs|bench|website)/[\w./-]+)`")
_NAME = re.compile(r"`(framework(?:\.\w+)+)`")
_NAME_OF_FILE = re.compile(r"`(\w+)` (?:of|in)\s+`(framework/[\w/]+\.py)`")


def found_by(pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    """Return what a pattern finds on all pages."""
    return sorted({found.groups() for text in PAGES.values() for found in pattern.finditer(text)})


def test_files_that_pages_name_exist() -> None:
    """A path in backticks that begins with a folder of the repository is a file or a folder."""
    named = found_by(_PATH)
    assert len(named) > 40
    assert [path for (path,) in named if not (ROOT / path).exists()] == []


def test_modules_and_names_that_pages_name_exist() -> None:
    """A dotted name in backticks that begins with `framework` can be imported."""
    named = found_by(_NAME)
    assert len(named) > 10
    assert [name for (name,) in named if not is_importable(name)] == []


def test_names_of_a_file_are_defined_in_it() -> None:
    """On "`NAME` of `framework/…`", the file has the name."""
    named = found_by(_NAME_OF_FILE)
    assert len(named) > 4
    missing = [
        (name, path) for name, path in named
        if not re.search(rf"^(?:class |def )?{name}\b", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    ]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("name", ["framework.nothing", "framework.pipeline.Nothing", "framework.cli.main.cli.nothing"])
def test_a_name_that_does_not_exist_is_found(name: str) -> None:
    """The check itself fails for a module, a name and an attribute that do not exist."""
    assert not is_importable(name)


def test_the_page_of_settings_is_complete() -> None:
    """It has each key of the spec, and each setting and variable that the code reads, and no others."""
    page = PAGES["docs/settings.md"]
    first = "\n".join(line.partition(" | ")[0] for line in page.splitlines() if line.startswith("| `"))
    code = "\n".join(source.text for source in sources("framework") if "/testing/" not in source.path)
    keys = {*_TEXTS, *_MAPS, *_FLAGS, *KEYS, "libraries", "trigger"}
    settings = {*re.findall(r'^\w+ = "(pipelines\.[\w.]+)"$', code, re.MULTILINE)}
    settings |= {"pipelines.maxParallelFlows", "pipelines.maxFlowRetryAttempts", "pipelines.numUpdateRetryAttempts"}
    settings |= {"pipelines.reset.allowed", "sluice.quarantine"}
    # A check of views that does not apply here, a setting of Databricks' gateways, and the failpoints of tests.
    settings -= {"pipelines.incompatibleViewCheck.enabled", "pipelines.gateway.progressEventEmitFrequencySeconds"}
    variables = {*re.findall(r'"(SLUICE_[A-Z_]+)"', code)} - {"SLUICE_FAILPOINT"}
    assert {*re.findall(r"`([a-z_]+)`", first)} == keys
    assert {*re.findall(r"`((?:pipelines|sluice)\.(?!local|yml)[\w.]+)`", first)} == settings
    assert {*re.findall(r"`(SLUICE_(?:[A-Z]+_?)+)", first)} == variables


def test_the_page_of_the_doctor_has_every_diagnosis() -> None:
    """Its table has a row, or a part of one, for each, and no other."""
    table = PAGES["docs/doctor.md"].partition("| diagnosis | ")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines() for name in re.findall(r"[A-Z_]{4,}", row.split(" | ")[0])]
    names = (each.name for each in (*every_diagnosis(), *WITHOUT_FAULT))
    known = {name for name in names if name != LEDGER_HELD}
    assert (len(listed), {*listed}) == (len(known), known)


def is_importable(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    found = import_module(parts[0])
    for number, part in enumerate(parts[1:], start=2):
        if hasattr(found, "__path__") and find_spec(".".join(parts[:number])) is not None:
            found = import_module(".".join(parts[:number]))
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            return False
    return True
