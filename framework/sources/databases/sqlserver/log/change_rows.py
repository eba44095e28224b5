"""Rows of changes from the rows of a change table: operations and payloads, written into the spool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.sqlserver.log.moved_keys import MovedKeys
from framework.sources.databases.sqlserver.values.types import ColumnType
from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpoolWriter
from framework.sources.databases.tables import UNREADABLE, TableName

INSERT, UPDATE, DELETE = "INSERT", "UPDATE", "DELETE"


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """A table with its columns in the log."""

    table: TableName
    schema_version: int


@dataclass(frozen=True, slots=True)
class ChangeTransaction:
    """A transaction, or with change tracking all changes of one version."""

    position: int
    commit_microseconds: int


class ChangeWriter:
    """Writes changes into a batch of the spool.

    Args:
        spool: the spool.
        generation: of the rows.
    """

    def __init__(self, spool: Spool, generation: int) -> None:
        self._buffer = ChangeBuffer()
        self._kinds: list[ChangeKind] = []
        self._places: dict[ChangeKind, int] = {}
        self._writer = SpoolWriter(
            spool, generation=generation, buffer=self._buffer, kinds=self._kinds, complete=lambda _: 0
        )
        self._is_open = False
        self.bytes = 0

    @property
    def rows(self) -> int:
        """How many changes there are."""
        return self._writer.rows + len(self._buffer.kinds)

    def begin(self, transaction: ChangeTransaction) -> None:
        """Begin a transaction of a table; the one before ends."""
        self.end()
        self._writer.begin(transaction)
        self._is_open = True

    def end(self) -> None:
        """End the transaction, if one is open."""
        if self._is_open:
            self._writer.commit()
            self._is_open = False

    def add(self, shape: ChangedTable, operation: str, payload: str | None) -> None:
        """Add a change to the open transaction."""
        kind = ChangeKind(shape, operation)
        place = self._places.get(kind)
        if place is None:
            place = self._places[kind] = len(self._kinds)
            self._kinds.append(kind)
        self._buffer.kinds.append(place)
        self._buffer.payloads.append(payload)
        size = len(payload or "")
        self._writer.bytes_in_buffer += size
        self.bytes += size
        self._writer.relieve(most_pending=1)

    def seal(self, start: int, end: int, *, caught_up: bool) -> SpooledBatch:
        """Publish the batch."""
        self.end()
        return self._writer.seal(start, end, caught_up=caught_up)

    def discard(self) -> None:
        """Remove what was written."""
        self._writer.discard()


class RowEncoder:
    """Encodes the rows of a table.

    Args:
        shape: the table with its columns.
        columns: the columns of its rows.
        key: the columns that identify a row; () if unknown, then a deleted row has all columns.
        is_kept: whether a row with a value that has no Spark type is kept as UNREADABLE.
        moved: the rows that a transaction moves to other keys; None if the log has them in the order of the key.
    """

    def __init__(
        self,
        shape: ChangedTable,
        columns: Sequence[ColumnType],
        key: Sequence[str],
        *,
        is_kept: bool,
        moved: MovedKeys | None = None,
    ) -> None:
        self.shape = shape
        self.moved = moved
        self.columns = columns
        self._columns = [(json.dumps(each.name, ensure_ascii=False) + ":", each) for each in columns]
        names = [each.name for each in columns]
        self._key = [names.index(name) for name in key] if {*key} <= {*names} else [*range(len(names))]
        self._is_kept = is_kept

    def write(self, writer: ChangeWriter, operation: str, values: Sequence[Any]) -> None:
        """Add a change to the open transaction.

        Raises:
            SourceError: DATABASE_VALUE_NOT_REPRESENTABLE, unless such rows are kept.
        """
        places: Iterable[int] = self._key if operation == DELETE else range(len(self._columns))
        try:
            payload = self._object(values, places)
        except SourceError as error:
            self.fail(writer, error)
        else:
            writer.add(self.shape, operation, payload)

    def fail(self, writer: ChangeWriter, error: SourceError) -> None:
        """Hold the table from here on.

        Raises:
            SourceError: the error, unless such changes are kept.
        """
        if not self._is_kept:
            raise error
        writer.add(self.shape, UNREADABLE, one_line(error.what))

    def key_of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the key of a row, as the driver read it."""
        return tuple(values[place] for place in self._key)

    def _object(self, values: Sequence[Any], places: Iterable[int]) -> str:
        parts = (self._columns[place][0] + self._columns[place][1].json(values[place]) for place in places)
        return "{" + ",".join(parts) + "}"
