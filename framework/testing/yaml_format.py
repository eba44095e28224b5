"""Test files in YAML (`*.unit_tests.yml`) as frozen values: the words of sdp-test, and more for batches and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from framework.foundation.errors import SluiceError, UserError, UserErrors
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml

YAML = YamlFormat(node=YamlNode, unreadable="TEST_FILE_UNREADABLE", invalid="TEST_FILE_INVALID_YAML", at_keys=True)


class TestFileErrors(UserErrors):
    """All faults of one test file."""

    __test__: ClassVar[bool] = False  # it is no test class
    heading: ClassVar[str] = "TEST_FILE_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Rows of an input: given from the start, or arriving as one more batch."""

    source: str
    rows: object
    schema: str | None
    real: bool
    options: Mapping[str, str]
    location: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One statement about what an update did.

    Args:
        kind: `expect`, `quality`, `quarantined` or `events`.
        table: the dataset; None for the model of the test.
        values: the other entries, by key.
    """

    kind: str
    table: str | None
    values: Mapping[str, Any]
    location: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One update: what is set and arrives before it, and what holds after it."""

    clock: str | Mapping[str, float] | None
    given: tuple[Input, ...]
    arrives: tuple[Input, ...]
    update: tuple[str, ...] | None
    full_refresh: tuple[str, ...]
    plan: Mapping[str, str] | None
    error: Mapping[str, str] | None
    checks: tuple[Check, ...]
    location: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlTest:
    """A test: its model, its entries of the configuration, and its steps, of which the first one is its own keys."""

    name: str
    model: str | None
    callable: str | None
    parameters: Mapping[str, str]
    steps: tuple[Step, ...]
    location: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlTestFile:
    """The tests of one file, and the spec that it names."""

    spec: Path | None
    tests: tuple[YamlTest, ...]


# What each kind of mapping may contain, with the expected type of each value.
_TEXT, _FLAG, _COUNT = "a text", "true or false", "a whole number of at least 0"
_MAP, _TEXT_MAP, _LIST, _TEXTS = "a mapping", "a mapping of texts", "a list", "a text or a list of texts"
_ROWS = "a list of rows, or a table as text"
_SOURCES = ("table", "path", "topic", "source")
_INPUT = {
    **dict.fromkeys(_SOURCES, _TEXT), "rows": _ROWS, "rows_from": _TEXT,
    "schema": "a text or a mapping of texts", "real": _FLAG, "file": _TEXT, "content": _TEXT,
}  # fmt: skip
_EXPECT = {"table": _TEXT, "rows": _ROWS, "rows_from": _TEXT, "only": _TEXTS, "ordered": _FLAG}
_QUALITY = {"table": _TEXT, "expectation": _TEXT, "passed": _COUNT, "failed": _COUNT}
_QUARANTINED = {"table": _TEXT, "reason": _TEXT, "rows": f"{_COUNT}, {_ROWS}"}
_EVENT = {"type": _TEXT, "table": _TEXT, "level": _TEXT, "message": _TEXT, "count": _COUNT}
_ERROR = {"condition": _TEXT, "match": _TEXT, "table": _TEXT}
_STEP = {
    "clock": "a time, or a mapping such as `hours: 1`", "arrives": _LIST, "update": _TEXTS, "full_refresh": _TEXTS,
    "plan": _TEXT_MAP, "expect": "a mapping or a list", "quality": _LIST, "quarantined": _LIST, "events": _LIST,
    "error": "a condition, or a mapping",
}  # fmt: skip
_TEST = {
    "name": _TEXT, "model": _TEXT, "callable": _TEXT, "parameters": _MAP, "spark_conf": _MAP, "log_level": _TEXT,
    "given": _LIST, "then": _LIST, **_STEP,
}  # fmt: skip
_FILE = {"pipeline": _TEXT, "parameters": _MAP, "log_level": _TEXT, "tests": _LIST}

_IS: Mapping[str, Callable[[Any], bool]] = {
    _TEXT: lambda value: isinstance(value, str),
    _FLAG: lambda value: isinstance(value, bool),
    _COUNT: lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    _MAP: lambda value: isinstance(value, dict),
    _TEXT_MAP: lambda value: isinstance(value, dict) and all(isinstance(each, str) for each in value.values()),
    _LIST: lambda value: isinstance(value, list),
    _TEXTS: lambda value: (
        isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))
    ),
    _ROWS: lambda value: isinstance(value, str | list),
    _INPUT["schema"]: lambda value: isinstance(value, str) or _IS[_TEXT_MAP](value),
    _QUARANTINED["rows"]: lambda value: _IS[_COUNT](value) or isinstance(value, str | list),
    _STEP["clock"]: lambda value: not isinstance(value, list | bool),
    _STEP["expect"]: lambda value: isinstance(value, dict | list),
    _STEP["error"]: lambda value: isinstance(value, dict | str),
}


def read_test_file(path: Path) -> YamlTestFile:
    """Read the tests of a file.

    Raises:
        UserError: TEST_FILE_UNREADABLE, TEST_FILE_INVALID_YAML.
        TestFileErrors: unknown and missing keys, and invalid values, each with its line.
    """
    reader = _Reader(path)
    found = reader.file(read_yaml(path, YAML))
    if reader.errors:
        raise TestFileErrors(reader.errors)
    return found


class _Reader:
    """Checks and converts the nodes of one file, and gathers its errors."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self.errors: list[SluiceError] = []

    def file(self, document: YamlNode) -> YamlTestFile:
        values = self._checked(document, "A test file", _FILE, needs=("tests",))
        spec = values.get("pipeline")
        tests = tuple(self._test(each, values.get("parameters", {})) for each in _items(document, "tests"))
        return YamlTestFile(spec=None if spec is None else self._folder / spec, tests=tests)

    def _test(self, node: YamlNode, parameters: Mapping[str, Any]) -> YamlTest:
        values = self._checked(node, "A test", _TEST)
        later = (self._step(each, "A step of `then`", _STEP) for each in _items(node, "then"))
        return YamlTest(
            name=values.get("name") or f"line {node.location.line}",
            model=values.get("model"),
            callable=values.get("callable"),
            parameters=_texts({**parameters, **values.get("spark_conf", {}), **values.get("parameters", {})}),
            steps=(self._step(node, "A test", None), *later),
            location=node.location_of("name") if node.is_map else node.location,
        )

    def _step(self, node: YamlNode, where: str, known: Mapping[str, str] | None) -> Step:
        """Convert a step; `known` is None for the entries of a test, which are checked already."""
        values = self._valid(node, _TEST) if known is None else self._checked(node, where, known)
        error, clock = values.get("error"), values.get("clock")
        if isinstance(error, dict):
            error = self._checked(node.value["error"], "`error`", _ERROR, needs=("condition",))
        checks = [
            check
            for kind, keys, needs in (
                ("expect", _EXPECT, ()),
                ("quality", _QUALITY, ("expectation",)),
                ("quarantined", _QUARANTINED, ()),
                ("events", _EVENT, ("type",)),
            )
            for check in self._checks(node, kind, keys, needs)
        ]
        return Step(
            clock=clock if clock is None or isinstance(clock, dict) else str(clock),
            given=tuple(self._input(each, "An entry of `given`") for each in _items(node, "given")),
            arrives=tuple(self._input(each, "An entry of `arrives`") for each in _items(node, "arrives")),
            update=None if values.get("update") is None else _list_of(values["update"]),
            full_refresh=_list_of(values.get("full_refresh", ())),
            plan=values.get("plan"),
            error={"condition": error} if isinstance(error, str) else error,
            checks=tuple(checks),
            location=node.location,
        )

    def _input(self, node: YamlNode, where: str) -> Input:
        values = self._checked(node, where, _INPUT)
        named = [key for key in _SOURCES if key in values]
        if len(named) != 1 and node.is_map:
            self._add("TEST_FILE_MISSING_KEY", node, where=where, key=f"one of {', '.join(_SOURCES)}")
        kind = named[0] if named else "table"
        source, schema = str(values.get(kind, "")), values.get("schema")
        return Input(
            source=f"kafka:{source}" if kind == "topic" else source,
            rows=self._rows(values),
            schema=_ddl(schema) if isinstance(schema, dict) else schema,
            real=values.get("real", False),
            options={key: values[key] for key in ("file", "content") if key in values},
            location=node.location,
        )

    def _checks(self, node: YamlNode, kind: str, known: Mapping[str, str], needs: tuple[str, ...]) -> Iterator[Check]:
        below = node.get(kind)
        if below is None:
            return
        for each in (below,) if kind == "expect" and below.is_map else _items(node, kind):
            values = self._checked(each, f"An entry of `{kind}`", known, needs=needs)
            if kind == "expect":
                values = {"only": None, "ordered": False, **values, "rows": self._rows(values)}
                values.pop("rows_from", None)
            elif kind == "quarantined" and isinstance(values.get("rows"), list):
                values["rows"] = self._rows(values)
            where = node.location_of(kind) if each is below else each.location
            yield Check(kind=kind, table=values.pop("table", None), values=values, location=where)

    def _rows(self, values: Mapping[str, Any]) -> object:
        """Return the rows of a mapping in a form that a sandbox takes: a path, a text, or a list."""
        if "rows_from" in values:
            return self._folder / values["rows_from"]
        rows = values.get("rows", [])
        return [tuple(each) if isinstance(each, list) else each for each in rows] if isinstance(rows, list) else rows

    def _checked(
        self, node: YamlNode, where: str, known: Mapping[str, str], *, needs: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return the valid entries of a mapping as plain values; add an error for each other one."""
        if not node.is_map:
            self._add("TEST_FILE_INVALID_VALUE", node, key=where, expected=_MAP, found=_words(node.plain()))
            return {}
        for key in node.value:
            if key not in known:
                hint, keys = nearest_hint(key, known), ", ".join(known)
                self._add("TEST_FILE_UNEXPECTED_KEY", node, key, where=where, key=key, hint=hint, known=keys)
        for key in needs:
            if node.get(key) is None:
                self._add("TEST_FILE_MISSING_KEY", node, where=where, key=key)
        for key, expected in known.items():
            found = node.get(key)
            if found is not None and not _IS[expected](found.plain()):
                words = _words(found.plain())
                self._add("TEST_FILE_INVALID_VALUE", node, key, key=f"`{key}`", expected=expected, found=words)
        return self._valid(node, known)

    def _valid(self, node: YamlNode, known: Mapping[str, str]) -> dict[str, Any]:
        found = {key: node.get(key) for key in known} if node.is_map else {}
        values = {key: each.plain() for key, each in found.items() if each is not None}
        return {key: value for key, value in values.items() if _IS[known[key]](value)}

    def _add(self, condition: str, node: YamlNode, *keys: str, **fields: object) -> None:
        self.errors.append(UserError(condition, location=node.location_of(*keys), **fields))


def _items(node: YamlNode, key: str) -> tuple[YamlNode, ...]:
    """Return the nodes of a list; empty if it is missing or no list."""
    found = node.get(key)
    return found.value if found is not None and isinstance(found.value, tuple) else ()


def _ddl(types: Mapping[str, str]) -> str:
    return ", ".join(f"`{column}` {type_name}" for column, type_name in types.items())


def _list_of(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values of a configuration as texts, with `true` and `false` as Spark spells them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


def _words(value: Any) -> str:
    """Return a found value for an error text: a short one as it is, else its kind."""
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)
