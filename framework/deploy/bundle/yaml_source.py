"""Safe reading of a bundle's YAML files, with the source location of each value.

Scalars are read as in the Databricks CLI: `yes`, `on`, dates and `12:30` are texts. A duplicate key is an error, and
the number of values is limited, so that aliases can't expand a small file without bound.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from framework.deploy.bundle.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_MOST_NODES = 200_000
_DEEPEST = 100
_TEXT = "tag:yaml.org,2002:str"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_PLAIN = (_TEXT, *_NUMBERS, "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", "tag:yaml.org,2002:timestamp")


class _Reader:
    """Converts the YAML nodes of one file, and limits their number."""

    _loader: ClassVar[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._scalars = yaml.constructor.SafeConstructor()

    def read(self, text: str) -> Node:
        try:
            root = yaml.compose(text, Loader=self._loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            place = SourceLocation(file=self._name, line=line, column=column)
            raise self._invalid(place, getattr(error, "problem", None) or str(error)) from error
        except RecursionError as error:
            place = SourceLocation(file=self._name, line=1, column=1)
            raise self._invalid(place, "it is nested too deeply") from error
        if root is None:
            return Node(value={}, place=SourceLocation(file=self._name, line=1, column=1))
        node = self._convert(root, 0)
        if not node.is_map:
            raise self._invalid(node.place, "the top level is not a mapping")
        return node

    def _invalid(self, place: SourceLocation, cause: str) -> UserError:
        return UserError("BUNDLE_INVALID_YAML", location=place, path=self._name, cause=cause)

    def _place(self, node: yaml.Node) -> SourceLocation:
        mark = node.start_mark
        return SourceLocation(file=self._name, line=mark.line + 1, column=mark.column + 1)

    def _convert(self, node: yaml.Node, depth: int) -> Node:
        self._count += 1
        if self._count > _MOST_NODES:
            raise self._invalid(self._place(node), f"it contains more than {_MOST_NODES:,} values")
        if depth > _DEEPEST:
            raise self._invalid(self._place(node), "it is nested too deeply, or an alias contains itself")
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            raise self._invalid(self._place(node), f"the tag {node.tag} is not supported")
        if isinstance(node, yaml.MappingNode):
            return Node(value=dict(self._pairs(node, depth)), place=self._place(node))
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self._convert(each, depth + 1) for each in node.value)
            return Node(value=items, place=self._place(node))
        return Node(value=self._scalar(node), place=self._place(node))

    def _pairs(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, Node]]:
        seen: set[str] = set()
        inherited: dict[str, Node] = {}
        merges = [key for key, _ in node.value if key.tag == "tag:yaml.org,2002:merge"]
        if len(merges) > 1:
            raise self._invalid(self._place(merges[1]), "`<<` is used twice; write one list, `<<: [*a, *b]`")
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for source in reversed(sources):
                    inherited |= self._merged(source, depth)
        own: dict[str, Node] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise self._invalid(self._place(key), "a key is not a string")
            if key.value in seen:
                raise self._invalid(self._place(key), f"the key `{key.value}` is duplicated")
            seen.add(key.value)
            own[key.value] = self._convert(value, depth + 1)
        yield from (inherited | own).items()

    def _merged(self, source: yaml.Node, depth: int) -> dict[str, Node]:
        node = self._convert(source, depth + 1)
        if not isinstance(node.value, dict):
            raise self._invalid(node.place, "`<<` requires a mapping")
        return node.value

    def _scalar(self, node: yaml.Node) -> Any:
        text = str(node.value)
        if node.tag not in _PLAIN:
            raise self._invalid(self._place(node), f"the tag {node.tag} is not supported")
        if node.tag.endswith(":timestamp") or (node.tag in _NUMBERS and ":" in text):
            return text
        if node.tag.endswith(":bool") and text.lower() not in ("true", "false"):
            return text
        try:
            value = self._scalars.construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            raise self._invalid(self._place(node), str(error)) from error
        if isinstance(value, float) and not math.isfinite(value):
            return text
        return value


def read_bundle_yaml(path: Path, *, root: Path) -> Node:
    """Read the mapping of a file; its locations are relative to the bundle's root.

    Raises:
        UserError: BUNDLE_FILE_UNREADABLE; BUNDLE_INVALID_YAML with line and column.
    """
    name = Path(os.path.relpath(path, root)).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not valid UTF-8"
        raise UserError("BUNDLE_FILE_UNREADABLE", path=path, cause=cause) from error
    return parse_bundle_yaml(text, name)


def parse_bundle_yaml(text: str, name: str) -> Node:
    """Parse the mapping in a text; `name` is the name of its file, for locations.

    Raises:
        UserError: BUNDLE_INVALID_YAML with line and column.
    """
    return _Reader(name).read(text)


def find_anchors(path: Path) -> frozenset[tuple[int, int]]:
    """Return line and column of each anchored value of a readable file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events = yaml.parse(path.read_text(encoding="utf-8"), Loader=loader)
    marks = (
        each.start_mark
        for each in events
        if isinstance(each, yaml.NodeEvent) and not isinstance(each, yaml.AliasEvent) and each.anchor is not None
    )
    return frozenset((mark.line + 1, mark.column + 1) for mark in marks if mark is not None)
