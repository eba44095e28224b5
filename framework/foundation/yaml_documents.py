"""Safe YAML reader with the source location of each value, for pipeline specs and bundles.

Duplicate keys and unknown tags are errors. Depth and number of values are limited, so that aliases can't expand a small
file without bound. The kind of file determines the names of the errors and the meaning of scalars.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import yaml

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.wording import exception_text

_MAX_NODES = 200_000
_MAX_DEPTH = 100
_MAX_DIGITS = 4_300
_MAX_BYTES = 8_000_000
_TOO_LARGE = f"it is larger than {_MAX_BYTES // 1_000_000} MB"
_TOO_DEEP = "it is nested too deeply, or an alias contains itself"
_TOO_MANY = f"it contains more than {_MAX_NODES:,} values"
_PREFIX = "tag:yaml.org,2002:"
_MERGE = f"{_PREFIX}merge"
_NUMBERS = (f"{_PREFIX}int", f"{_PREFIX}float")
_DECIMAL_INTEGER = re.compile(r"[-+]?[0-9]+")
_COLLECTIONS = (f"{_PREFIX}map", f"{_PREFIX}seq")
_SCALARS = (*_NUMBERS, *(f"{_PREFIX}{name}" for name in ("str", "bool", "null", "timestamp")))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class YamlNode:
    """A value of a YAML file and its source location.

    Args:
        value: a scalar, a dict from texts to nodes, or a tuple of nodes.
        location: its source location.
    """

    value: Any
    location: SourceLocation

    @property
    def is_map(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.value, dict)

    def get(self, *keys: str) -> Self | None:
        """Return the node at nested keys; None if it is missing or null."""
        node: Self | None = self
        for key in keys:
            if node is None or not node.is_map:
                return None
            node = node.value.get(key)
        return None if node is None or node.value is None else node

    def location_of(self, *keys: str | int) -> SourceLocation:
        """Return the location at nested keys and indexes; if one is missing, of the nearest enclosing node."""
        node = self
        for key in keys:
            below = node.value
            known = below if isinstance(below, dict) else dict(enumerate(below)) if isinstance(below, tuple) else {}
            if key not in known:
                break
            node = known[key]
        return node.location

    def plain(self) -> Any:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: each.plain() for key, each in self.value.items()}
        if isinstance(self.value, tuple):
            return [each.plain() for each in self.value]
        return self.value


_N = TypeVar("_N", bound=YamlNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFormat(Generic[_N]):
    """The reading rules for one kind of file.

    Args:
        node: the class of the nodes.
        unreadable: condition for a file that can't be read; its fields are `path` and `cause`.
        invalid: condition for an invalid text of this kind; its fields are `path` and `cause`.
        is_yaml_1_2: whether to read the file as the Databricks CLI does: `yes`, `on`, dates, `12:30` and `.inf` are
            texts, numbers are decimal, and the last source in `<<: [*a, *b]` takes precedence. Otherwise it is read as
            PyYAML reads it, like Spark's own pipeline specs: these are booleans, dates and numbers, `010` is octal, and
            the first source takes precedence.
        may_be_empty: whether a file without a document is an empty mapping.
        at_keys: whether the location of a mapping entry is the location of its key, not of its value.
    """

    node: type[_N]
    unreadable: str
    invalid: str
    is_yaml_1_2: bool = False
    may_be_empty: bool = False
    at_keys: bool = False


def read_yaml(path: Path, kind: YamlFormat[_N], *, name: str | None = None) -> _N:
    """Read the mapping of a file.

    Args:
        path: the file.
        kind: its kind.
        name: its name in locations; the path by default.

    Raises:
        UserError: the kind's `unreadable`; its `invalid` with line and column.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UserError(kind.unreadable, path=path, cause=_TOO_LARGE)
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(kind.unreadable, path=path, cause="it is not valid UTF-8") from error
    except OSError as error:
        raise UserError(kind.unreadable, path=path, cause=error.strerror) from error
    except ValueError as error:  # a path that is invalid on any file system
        raise UserError(kind.unreadable, path=repr(str(path)), cause=exception_text(error)) from error
    return parse_yaml(text, kind, name=str(path) if name is None else name)


def parse_yaml(text: str, kind: YamlFormat[_N], *, name: str) -> _N:
    """Parse the mapping in a text; `name` is its file name in locations.

    Raises:
        UserError: the kind's `invalid` with line and column.
    """
    return _Reader(name, kind).read(text)


def find_anchors(path: Path) -> frozenset[tuple[int, int]]:
    """Return the line and column of each anchored value of a readable file."""
    events = yaml.parse(path.read_text(encoding="utf-8"), Loader=_Reader.loader)
    marks = (
        each.start_mark
        for each in events
        if isinstance(each, yaml.NodeEvent) and not isinstance(each, yaml.AliasEvent) and each.anchor is not None
    )
    return frozenset((mark.line + 1, mark.column + 1) for mark in marks if mark is not None)


class _Reader(Generic[_N]):
    """Converts the YAML nodes of one file, and limits their number."""

    loader: ClassVar[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def __init__(self, name: str, kind: YamlFormat[_N]) -> None:
        self._name = name
        self._kind = kind
        self._count = 0
        self._scalars = yaml.constructor.SafeConstructor()

    def read(self, text: str) -> _N:
        start = SourceLocation(file=self._name, line=1, column=1)
        if len(text) > _MAX_BYTES:
            raise self._invalid(start, _TOO_LARGE)
        try:
            self._scan(text)
            root = yaml.compose(text, Loader=self.loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            location = start if mark is None else self._location(mark)
            raise self._invalid(location, getattr(error, "problem", None) or str(error)) from error
        if root is None and self._kind.may_be_empty:
            return self._kind.node(value={}, location=start)
        if not isinstance(root, yaml.MappingNode):
            raise self._invalid(
                start if root is None else self._location(root.start_mark), "the top level is not a mapping"
            )
        return self._convert(root, 0)

    def _scan(self, text: str) -> None:
        """Check depth and number of values before libyaml composes them: its recursion can crash the process."""
        depth = count = 0
        for event in yaml.parse(text, Loader=self.loader):
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.NodeEvent):
                count += 1
                if depth > _MAX_DEPTH:
                    raise self._invalid(self._location(event.start_mark), _TOO_DEEP)
                if count > _MAX_NODES:
                    raise self._invalid(self._location(event.start_mark), _TOO_MANY)
                depth += isinstance(event, yaml.CollectionStartEvent)

    def _invalid(self, location: SourceLocation, cause: str) -> UserError:
        return UserError(self._kind.invalid, location=location, path=self._name, cause=cause)

    def _location(self, mark: Any) -> SourceLocation:
        return SourceLocation(file=self._name, line=mark.line + 1, column=mark.column + 1)

    def _convert(self, node: yaml.Node, depth: int, key: yaml.Node | None = None) -> _N:
        """Convert a node; the location of an entry is taken from its `key`."""
        location = self._location(node.start_mark if key is None else key.start_mark)
        self._count += 1
        if self._count > _MAX_NODES:
            raise self._invalid(location, _TOO_MANY)
        if depth > _MAX_DEPTH:
            raise self._invalid(location, _TOO_DEEP)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            raise self._invalid(location, f"the tag {node.tag} is not supported")
        if isinstance(node, yaml.MappingNode):
            return self._kind.node(value=self._mapping(node, depth), location=location)
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self._convert(each, depth + 1) for each in node.value)
            return self._kind.node(value=items, location=location)
        return self._kind.node(value=self._scalar(node, location), location=location)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, _N]:
        """Return the entries of a mapping, merged entries (`<<`) first; an own entry replaces a merged one."""
        inherited: dict[str, _N] = {}
        own: dict[str, _N] = {}
        is_merged = False
        for key, value in node.value:
            location = self._location(key.start_mark)
            if key.tag == _MERGE:
                if is_merged:
                    raise self._invalid(location, "`<<` is used twice; write one list, `<<: [*a, *b]`")
                is_merged = True
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    further = self._merged(source, depth)
                    inherited = inherited | further if self._kind.is_yaml_1_2 else further | inherited
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise self._invalid(location, "a key is not a string")
            if key.value in own:
                raise self._invalid(location, f"the key `{key.value}` is duplicated")
            own[key.value] = self._convert(value, depth + 1, key if self._kind.at_keys else None)
        return inherited | own

    def _merged(self, source: yaml.Node, depth: int) -> dict[str, _N]:
        node = self._convert(source, depth + 1)
        if not isinstance(node.value, dict):
            raise self._invalid(node.location, "`<<` requires a mapping")
        return node.value

    def _scalar(self, node: yaml.Node, location: SourceLocation) -> Any:
        text = str(node.value)
        if node.tag not in _SCALARS:
            raise self._invalid(location, f"the tag {node.tag} is not supported")
        if self._kind.is_yaml_1_2 and _is_text_in_yaml_1_2(node.tag, text):
            return text
        if node.tag in _NUMBERS and len(text) > _MAX_DIGITS:  # a number of base 60 would take hours
            raise self._invalid(location, f"a number has more than {_MAX_DIGITS:,} digits")
        is_decimal = self._kind.is_yaml_1_2 and node.tag in _NUMBERS
        try:
            if is_decimal:
                return _decimal_number(text, is_integer=node.tag == _NUMBERS[0])
            return self._scalars.construct_object(node)
        # PyYAML raises all of these for a scalar that does not match its tag, such as `!!bool maybe` or `!!int ""`.
        except (ValueError, ArithmeticError, LookupError, AttributeError, yaml.YAMLError) as error:
            name = node.tag.removeprefix(_PREFIX)
            hint = "; numbers are decimal and have no underscores, and a text needs quotes" if is_decimal else ""
            raise self._invalid(location, f"`{text}` is not a valid {name}{hint}") from error


def _is_text_in_yaml_1_2(tag: str, text: str) -> bool:
    """Return whether a YAML 1.1 scalar is a text in YAML 1.2: a date, a number with colons, `yes` or `on`."""
    if tag == f"{_PREFIX}bool":
        return text.lower() not in ("true", "false")
    return tag == f"{_PREFIX}timestamp" or (tag in _NUMBERS and ":" in text)


def _decimal_number(text: str, *, is_integer: bool) -> float | str:
    """Return a decimal number; a number that is not finite is returned as text.

    Raises:
        ValueError: the number has underscores or another base.
    """
    if "_" in text or (is_integer and not _DECIMAL_INTEGER.fullmatch(text)):
        raise ValueError(text)
    if is_integer:
        return int(text)
    number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return number if math.isfinite(number) else text
