"""Nodes: settings of a bundle with their source locations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_KINDS = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A value of a bundle file and its source location.

    Args:
        value: a scalar, a dict of text to Node, or a tuple of Nodes.
        place: its source location.
    """

    value: Any
    place: SourceLocation

    @property
    def is_map(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.value, dict)

    def get(self, *keys: str) -> Node | None:
        """Return the node at nested keys; None if it is missing or null."""
        node: Node | None = self
        for key in keys:
            if node is None or not node.is_map:
                return None
            node = node.value.get(key)
        return None if node is None or node.value is None else node

    def plain(self) -> Any:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: each.plain() for key, each in self.value.items()}
        if isinstance(self.value, tuple):
            return [each.plain() for each in self.value]
        return self.value

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

    def with_entry(self, key: str, value: Any) -> Node:
        """Return the mapping with one entry set to a value; a plain value gets the mapping's location."""
        return Node(value={**self.value, key: as_node(value, self.place)}, place=self.place)

    def _refuse(self, field: str, expected: str) -> None:
        raise UserError(
            "BUNDLE_FIELD_TYPE", location=self.place, field=field, actual=kind_of(self.value), expected=expected
        )


def kind_of(value: Any) -> str:
    """Return the name of a value's kind, for errors.

    Examples:
        >>> kind_of(()), kind_of(None), kind_of(2)
        ('a list', 'null', 'a number')
    """
    if value is None:
        return "null"
    return "a list" if isinstance(value, tuple) else _KINDS[type(value)]


def as_node(value: Any, place: SourceLocation) -> Node:
    """Convert a plain value to nodes at one location; a node stays unchanged."""
    if isinstance(value, Node):
        return value
    if isinstance(value, dict):
        return Node(value={str(key): as_node(each, place) for key, each in value.items()}, place=place)
    if isinstance(value, list | tuple):
        return Node(value=tuple(as_node(each, place) for each in value), place=place)
    return Node(value=value, place=place)
