"""Typed reads of the fields of one mapping of a spec; a field that is not read is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.deploy.bundle.documents.nodes import Node, as_node
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint


class SpecFields:
    """The fields of a mapping.

    Args:
        node: the mapping.
        where: description of the mapping, for errors.

    Raises:
        UserError: BUNDLE_FIELD_TYPE, it is not a mapping.
    """

    def __init__(self, node: Node, where: str) -> None:
        self._node = node
        self._where = where
        self._read_keys: set[str] = set()
        node.entries(where)

    def below(self, key: str, *, optional: bool = False) -> SpecFields:
        """Return the fields of a nested mapping; an empty mapping if it is optional and missing."""
        found = self._find(key)
        if found is None and not optional:
            raise UserError("BUNDLE_FIELD_MISSING", location=self._node.location, field=key)
        return SpecFields(found or as_node({}, self._node.location), key)

    def text(self, key: str, *, default: str | None = None) -> str:
        """Read a text.

        Raises:
            UserError: BUNDLE_FIELD_TYPE; BUNDLE_FIELD_MISSING if it is missing and has no default.
        """
        found = self._find(key)
        if found is not None:
            return found.text(key)
        if default is None:
            raise UserError("BUNDLE_FIELD_MISSING", location=self._node.location, field=key)
        return default

    def choice(self, key: str, known: tuple[str, ...], *, default: str) -> str:
        """Read one of the known words.

        Raises:
            UserError: BUNDLE_FIELD_RANGE.
        """
        value = self.text(key, default=default)
        if value not in known:
            self._refuse(key, value, f"one of {', '.join(known)}")
        return value

    def number(self, key: str, low: int, high: int, *, default: int) -> int:
        """Read a whole number within bounds.

        Raises:
            UserError: BUNDLE_FIELD_RANGE.
        """
        found = self._find(key)
        value = default if found is None else found.value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self._refuse(key, value, f"an integer from {low} to {high}")
        return int(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Read true or false.

        Raises:
            UserError: BUNDLE_FIELD_RANGE.
        """
        found = self._find(key)
        value = default if found is None else found.value
        if not isinstance(value, bool):
            self._refuse(key, value, "true or false")
        return bool(value)

    def mapping(self, key: str) -> dict[str, Any]:
        """Read a mapping of any values, as plain values; empty if it is missing."""
        found = self._find(key)
        if found is None:
            return {}
        found.entries(key)
        plain: dict[str, Any] = found.plain()
        return plain

    def texts(self, key: str) -> tuple[str, ...]:
        """Read a list of texts; empty if it is missing."""
        return tuple(str(node.value) for node in self.text_nodes(key))

    def text_nodes(self, key: str) -> tuple[Node, ...]:
        """Read a list of texts with their locations; empty if it is missing."""
        found = self._find(key)
        nodes = () if found is None else found.items(key)
        for node in nodes:
            node.text(key)
        return nodes

    def entries(self, key: str) -> Iterator[tuple[str, Node]]:
        """Read the named entries of a mapping, at least one.

        Raises:
            UserError: BUNDLE_FIELD_MISSING.
        """
        found = self._find(key)
        if found is None or not found.entries(key):
            raise UserError("BUNDLE_FIELD_MISSING", location=self._node.location, field=key)
        for name, node in found.entries(key).items():
            yield name, as_node({}, found.location) if node.value is None else node

    def refuse_others(self) -> None:
        """Refuse a field that has not been read.

        Raises:
            UserError: BUNDLE_UNKNOWN_KEY, with the nearest known one.
        """
        for key, value in self._node.entries(self._where).items():
            if key not in self._read_keys:
                hint = nearest_hint(key, self._read_keys)
                raise UserError("BUNDLE_UNKNOWN_KEY", location=value.location, key=key, where=self._where, hint=hint)

    def _find(self, key: str) -> Node | None:
        self._read_keys.add(key)
        return self._node.get(key)

    def _refuse(self, key: str, value: object, expected: str) -> None:
        location = (self._node.get(key) or self._node).location
        raise UserError("BUNDLE_FIELD_RANGE", location=location, field=key, value=value, expected=expected)
