"""Keys that updates move in one transaction, for tables whose rows are not stored in the order of the key.

`UPDATE t SET id = id + 1` moves one row after the other. If a unique clustered index has the key, SQL Server sorts
these changes by key, deletions first. Otherwise, as in a heap, the log has each row's deletion and insertion next to
each other: the insertion of a key may come before the deletion of the row that had it. Nothing in the change table
marks the end of a statement: deletion and insertion of one row have different command ids. So the rows are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any

_MOST_KEYS = 1_000_000
_LARGE = ("(max)", "text", "ntext", "image", "xml", "json", "geography", "geometry", "hierarchyid", "sql_variant")


class Deletion(Enum):
    """Which row with a key was deleted."""

    LAST = "last"
    """The only one, or the one that was inserted last: the key is gone."""
    OLDER = "older"
    """One that another row has replaced already: the key stays."""
    UNKNOWN = "unknown"
    """Both are equal in all that the log has, apart from who was first."""


class _Rows:
    """The rows with a key that the transaction has moved to it, from the oldest to the newest."""

    __slots__ = ("images", "is_earlier_gone")

    def __init__(self) -> None:
        self.images: list[bytes] = []
        self.is_earlier_gone = False


class MovedKeys:
    """The rows that a transaction has moved to keys.

    Args:
        types: the types of the columns; values of large ones are not in every deletion, so they are not compared.
    """

    def __init__(self, types: Sequence[str]) -> None:
        self._compared = [place for place, name in enumerate(types) if not name.lower().endswith(_LARGE)]
        self._rows: dict[bytes, _Rows] = {}
        self._is_full = False

    def begin(self) -> None:
        """Begin a transaction."""
        self._rows.clear()
        self._is_full = False

    def move(self, key: Sequence[Any], row: Sequence[Any]) -> None:
        """Add a row that an update has moved to a key."""
        if len(self._rows) >= _MOST_KEYS:
            self._is_full = True
            return
        self._rows.setdefault(_digest(key), _Rows()).images.append(self._image(row))

    def change(self, key: Sequence[Any], row: Sequence[Any]) -> None:
        """Give the row with a key other values: at the end of a statement a key has one row."""
        found = self._rows.get(_digest(key)) if self._rows else None
        if found is not None:
            found.images, found.is_earlier_gone = [self._image(row)], True

    def delete(self, key: Sequence[Any], row: Sequence[Any]) -> Deletion:
        """Remove a row, and return which one it is: within a statement no row is moved twice."""
        if self._is_full:
            return Deletion.UNKNOWN
        found = self._rows.get(_digest(key)) if self._rows else None
        if found is None or not found.images:
            return Deletion.LAST
        image = self._image(row)
        if not found.is_earlier_gone:
            if image in found.images:
                return Deletion.UNKNOWN
            found.is_earlier_gone = True
            return Deletion.OLDER
        if found.images[0] != image:
            return Deletion.UNKNOWN
        found.images.pop(0)
        return Deletion.OLDER if found.images else Deletion.LAST

    def _image(self, row: Sequence[Any]) -> bytes:
        return _digest([row[place] for place in self._compared])


def _digest(values: Sequence[Any]) -> bytes:
    return blake2b(repr(list(values)).encode(), digest_size=16).digest()
