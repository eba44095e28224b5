"""Nodes: settings of a bundle with their source locations, and their traversal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.secrets.secrecy import secret_digests
from framework.foundation.yaml_documents import YamlFormat, YamlNode, read_yaml

_KINDS = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node(YamlNode):
    """A value of a bundle file, with reads that check its type.

    Args:
        is_secret: whether the value of a secret variable is a part of it.
    """

    is_secret: bool = False

    def entries(self, field: str) -> Mapping[str, Node]:
        """Return the entries of a mapping; empty if it is null.

        Raises:
            UserError: BUNDLE_FIELD_TYPE, it is not a mapping.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self._refuse(field, "a mapping")
        found: Mapping[str, Node] = self.value
        return found

    def items(self, field: str) -> tuple[Node, ...]:
        """Return the items of a list; empty if it is null.

        Raises:
            UserError: BUNDLE_FIELD_TYPE, it is not a list.
        """
        if self.value is None:
            return ()
        if not isinstance(self.value, tuple):
            self._refuse(field, "a list")
        found: tuple[Node, ...] = self.value
        return found

    def text(self, field: str) -> str:
        """Return the value as a text.

        Raises:
            UserError: BUNDLE_FIELD_TYPE, it is not a text.
        """
        if not isinstance(self.value, str):
            self._refuse(field, "a string")
        return str(self.value)

    def with_value(self, value: Any) -> Node:
        """Return the node with another value, at the same location and as secret as before."""
        return Node(value=value, location=self.location, is_secret=self.is_secret)

    def as_secret(self) -> Node:
        """Return the node with all its values marked as secret."""
        value = self.value
        if isinstance(value, dict):
            value = {key: each.as_secret() for key, each in value.items()}
        elif isinstance(value, tuple):
            value = tuple(each.as_secret() for each in value)
        return Node(value=value, location=self.location, is_secret=True)

    def with_entry(self, key: str, value: Any) -> Node:
        """Return the mapping with one entry set to a value; a plain value gets the mapping's location."""
        return Node(value={**self.value, key: as_node(value, self.location)}, location=self.location)

    def _refuse(self, field: str, expected: str) -> None:
        raise UserError(
            "BUNDLE_FIELD_TYPE", location=self.location, field=field, actual=kind_of(self.value), expected=expected
        )


BUNDLE_YAML = YamlFormat(
    node=Node, unreadable="BUNDLE_FILE_UNREADABLE", invalid="BUNDLE_INVALID_YAML", is_yaml_1_2=True, may_be_empty=True
)
"""A file of a bundle."""


def read_bundle_yaml(path: Path, *, root: Path) -> Node:
    """Read the mapping of a file; its locations are relative to the bundle's root.

    Raises:
        UserError: BUNDLE_FILE_UNREADABLE; BUNDLE_INVALID_YAML with line and column.
    """
    return read_yaml(path, BUNDLE_YAML, name=Path(os.path.relpath(path, root)).as_posix())


def kind_of(value: Any) -> str:
    """Return the name of a value's kind, for errors.

    Examples:
        >>> kind_of(()), kind_of(None), kind_of(2)
        ('a list', 'null', 'a number')
    """
    if value is None:
        return "null"
    return "a list" if isinstance(value, tuple) else _KINDS[type(value)]


def as_node(value: Any, location: SourceLocation) -> Node:
    """Convert a plain value to nodes at one location; a node stays unchanged."""
    if isinstance(value, Node):
        return value
    if isinstance(value, dict):
        return Node(value={str(key): as_node(each, location) for key, each in value.items()}, location=location)
    if isinstance(value, list | tuple):
        return Node(value=tuple(as_node(each, location) for each in value), location=location)
    return Node(value=value, location=location)


def secrets_in(node: Node) -> frozenset[str]:
    """Return the digests of the texts in settings that are marked as secret."""
    texts = (leaf.value for _, leaf in leaves_in(node) if leaf.is_secret and isinstance(leaf.value, str))
    return frozenset().union(*map(secret_digests, texts))


def texts_in(node: Node) -> Iterator[str]:
    """Return all texts in settings."""
    if isinstance(node.value, dict):
        for each in node.value.values():
            yield from texts_in(each)
    elif isinstance(node.value, tuple):
        for each in node.value:
            yield from texts_in(each)
    elif isinstance(node.value, str):
        yield node.value


def leaves_in(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Return all scalars in settings with their paths; items of lists have their index."""
    if isinstance(node.value, dict):
        for key, each in node.value.items():
            yield from leaves_in(each, (*path, key))
    elif isinstance(node.value, tuple):
        for number, each in enumerate(node.value):
            yield from leaves_in(each, (*path, str(number)))
    else:
        yield path, node
