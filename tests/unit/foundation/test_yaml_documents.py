"""The YAML reader: limits, locations and scalars, for pipeline specs and for bundles."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.errors import UserError
from framework.foundation.yaml_documents import YamlFormat, YamlNode, parse_yaml, read_yaml
from tests.support.sources import ROOT

SPEC = YamlFormat(node=YamlNode, unreadable="PIPELINE_SPEC_FILE_DOES_NOT_EXIST", invalid="PIPELINE_SPEC_INVALID_YAML")
BUNDLE = YamlFormat(
    node=YamlNode, unreadable="BUNDLE_FILE_UNREADABLE", invalid="BUNDLE_INVALID_YAML", is_yaml_1_2=True,
    may_be_empty=True,
)  # fmt: skip
AT_KEYS = YamlFormat(node=YamlNode, unreadable=SPEC.unreadable, invalid=SPEC.invalid, at_keys=True)

_TEN = ", ".join(["*{0}"] * 10)
BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [{_TEN.format(f'a{n - 1}')}]\n" for n in range(1, 7))


@pytest.mark.parametrize("kind", [SPEC, BUNDLE], ids=["spec", "bundle"])
@pytest.mark.parametrize(
    ("text", "at", "cause"),
    [
        ("a: 1\nb: 2\na: 3\n", "3:1", "the key `a` is duplicated"),
        ("a: {b: 1, b: 2}\n", "1:11", "the key `b` is duplicated"),
        ("a: &a {x: 1}\nb: {<<: *a, <<: *a}\n", "2:13", "`<<` is used twice"),
        ("a: {<<: 5}\n", "1:9", "`<<` requires a mapping"),
        ("a: !!python/object:os.system x\n", "1:4", "python/object:os.system is not supported"),
        ("a: !!set {x, y}\n", "1:4", "set is not supported"),
        ("? [a, b]\n: 2\n", "1:3", "a key is not a string"),
        ("a: &a [*a]\n", "1:4", "an alias contains itself"),
        ("a: " + "[" * 150 + "]" * 150 + "\n", "1:104", "nested too deeply"),
        (BOMB, "1:13", "more than 200,000 values"),
        ("a: [\n", "2:1", "did not find"),
        ("a: 1\n---\na: 2\n", "2:1", "another document"),
        ("- a\n", "1:1", "the top level is not a mapping"),
        ("text\n", "1:1", "the top level is not a mapping"),
    ],
)
def test_an_unsafe_text_is_refused_with_line_and_column(
    kind: YamlFormat[YamlNode], text: str, at: str, cause: str
) -> None:
    """The limits are the same for both kinds of files; only the condition differs."""
    with pytest.raises(UserError) as caught:
        parse_yaml(text, kind, name="f.yml")
    error = caught.value
    assert (error.condition, str(error.location), error.fields["path"]) == (kind.invalid, f"f.yml:{at}", "f.yml")
    assert cause in str(error.fields["cause"])


@pytest.mark.parametrize(
    ("text", "spec", "bundle"),
    [
        ("yes", True, "yes"),
        ("true", True, True),
        ("2013-01-01", date(2013, 1, 1), "2013-01-01"),
        ("12:30", 750, "12:30"),
        ("007123", 3667, 7123),
        ("-7", -7, -7),
        ("0o14", "0o14", "0o14"),
        ("1e3", "1e3", "1e3"),
        ("1.5", 1.5, 1.5),
        (".inf", float("inf"), ".inf"),
        ("-.INF", float("-inf"), "-.INF"),
        ("~", None, None),
        ("'5'", "5", "5"),
    ],
)
def test_scalars_mean_what_the_kind_of_file_says(text: str, spec: Any, bundle: Any) -> None:
    """Specs follow PyYAML, as Spark's own do; bundles follow the Databricks CLI."""
    assert [parse_yaml(f"a: {text}\n", kind, name="f").plain() for kind in (SPEC, BUNDLE)] == [
        {"a": spec},
        {"a": bundle},
    ]


def test_an_entry_is_located_at_its_key_or_its_value() -> None:
    """A list item is located at its value; a missing key has the location of the nearest enclosing node."""
    text = "a:\n  b:\n    - 1\n    - c: 2\n"
    paths: list[tuple[str | int, ...]] = [("a",), ("a", "b"), ("a", "b", 1), ("a", "b", 1, "c"), ("a", "x"), ("y",)]
    found = {
        kind.at_keys: [str(parse_yaml(text, kind, name="f").location_of(*path)).removeprefix("f:") for path in paths]
        for kind in (SPEC, AT_KEYS)
    }
    assert found == {
        False: ["2:3", "3:5", "4:7", "4:10", "2:3", "1:1"],
        True: ["1:1", "2:3", "4:7", "4:7", "1:1", "1:1"],
    }


def test_own_entries_replace_inherited_ones() -> None:
    """Of several sources, the first takes precedence in a spec, and the last in a bundle, as in the Databricks CLI."""
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], x: 3}\n"
    merged = [parse_yaml(text, kind, name="f").plain()["c"] for kind in (SPEC, BUNDLE)]
    assert merged == [{"x": 3, "y": 1, "z": 2}, {"x": 3, "y": 2, "z": 2}]


@pytest.mark.parametrize(
    ("kind", "text", "tag"),
    [
        (SPEC, "!!bool maybe", "bool"),
        *((kind, f"!!int {text}", "int") for kind in (SPEC, BUNDLE) for text in ('""', "x")),
        *((kind, f"!!float {text}", "float") for kind in (SPEC, BUNDLE) for text in ('""', "x")),
        (SPEC, "!!timestamp x", "timestamp"),
        (SPEC, "2026-02-30", "timestamp"),
        *((BUNDLE, text, "int") for text in ("0x1F", "1_000", "0b11")),
        (BUNDLE, "1_000.5", "float"),
    ],
)
def test_a_scalar_that_does_not_match_its_tag_is_refused(kind: YamlFormat[YamlNode], text: str, tag: str) -> None:
    """A bundle has decimal numbers only: the Databricks CLI refuses other bases and underscores."""
    with pytest.raises(UserError, match=f"is not a valid {tag}") as caught:
        parse_yaml(f"a: {text}\n", kind, name="f")
    assert (caught.value.condition, str(caught.value.location)) == (kind.invalid, "f:1:4")


def test_an_empty_file_is_a_mapping_only_where_the_kind_says_so() -> None:
    """A bundle's file may be empty, a pipeline spec may not."""
    assert parse_yaml("# nothing\n", BUNDLE, name="f").plain() == {}
    with pytest.raises(UserError, match="the top level is not a mapping"):
        parse_yaml("# nothing\n", SPEC, name="f")


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("missing.yml", None, "No such file"),
        ("latin.yml", b"a: \xff\n", "it is not valid UTF-8"),
        ("nul\0.yml", None, "ValueError: embedded null byte"),
    ],
)
def test_an_unreadable_file_is_reported_with_its_path(
    tmp_path: Path, name: str, content: bytes | None, cause: str
) -> None:
    """Missing, not in UTF-8, or with a name that no file system has."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_yaml(path, BUNDLE)
    assert caught.value.condition == "BUNDLE_FILE_UNREADABLE"
    assert cause in str(caught.value.fields["cause"])


HOSTILE = {
    "open lists": ("a: " + "[" * 100_000, "1:104", "nested too deeply"),
    "lists": ("a: " + "[" * 100_000 + "]" * 100_000, "1:104", "nested too deeply"),
    "mappings": ("{a: " * 100_000, "1:402", "nested too deeply"),
    "lists of blocks": ("a:\n" + "- " * 100_000 + "x", "2:201", "nested too deeply"),
    "keys of keys": ("? " * 100_000 + "x", "1:203", "nested too deeply"),
    "values": ("a: [" + "1, " * 300_000 + "1]", "1:599996", "more than 200,000 values"),
    "merges": (
        "a0: &a0 {x: 1}\n" + "".join(
            f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}, <<: *a{n - 1}}}\n" for n in range(1, 8)
        ),
        "1:5", "more than 200,000 values",
    ),
    "size": ("a: " + "x" * 10_000_000, "1:1", "larger than 8 MB"),
    "size of comments": ("#\n" * 5_000_000, "1:1", "larger than 8 MB"),
}  # fmt: skip
_READ_ALL = """
import sys
from pathlib import Path
from framework.foundation.errors import UserError
from tests.unit.foundation.test_yaml_documents import HOSTILE, KINDS
from framework.foundation.yaml_documents import parse_yaml, read_yaml

for name, (text, _, _) in HOSTILE.items():
    for kind in KINDS:
        try:
            parse_yaml(text, kind, name="f.yml")
        except UserError as error:
            print(name, error.location, error.fields["cause"], sep="|")
file = Path(sys.argv[1], "large.yml")
file.write_text(HOSTILE["size"][0])
try:
    read_yaml(file, KINDS[0])
except UserError as error:
    print(error.condition, error.fields["cause"], sep="|")
"""
KINDS = (SPEC, BUNDLE)


def test_a_hostile_file_is_an_error_with_its_place(tmp_path: Path) -> None:
    """It neither ends the process, as libyaml does that recurses, nor is it expanded: all are read in a second."""
    done = subprocess.run(
        [sys.executable, "-c", _READ_ALL, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=100,
    )  # fmt: skip
    *found, large = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    expected = [(name, f"f.yml:{at}", cause) for name, (_, at, cause) in HOSTILE.items() for _ in KINDS]
    got = [tuple(line.split("|")) for line in found]
    assert [(name, at) for name, at, _ in got] == [(name, at) for name, at, _ in expected]
    assert all(cause in text for (_, _, text), (_, _, cause) in zip(got, expected, strict=True))
    assert large == "PIPELINE_SPEC_FILE_DOES_NOT_EXIST|it is larger than 8 MB"
