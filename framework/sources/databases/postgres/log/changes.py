"""Rows of changes from the messages of the log: operation, schema version and payload."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from framework.foundation.errors import InternalError, SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.postgres.log.pgoutput import (
    OMITTED,
    Relation,
    RelationColumn,
    Row,
    Truncate,
    read_columns,
    read_oid,
    read_row,
    read_update,
)
from framework.sources.databases.postgres.log.seen_partitions import PartitionWatch, SeenPartition
from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind
from framework.sources.databases.tables import REPLACED, UNREADABLE, TableName

Fragment = Callable[[str], str]
_OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", UNREADABLE)
_FAULTS = (SourceError, UnicodeDecodeError)
_RUN = 16
"""With fewer messages, reading by column is slower."""


class FragmentFactory(Protocol):
    """Provides the function that encodes the text of a column's values as JSON."""

    def __call__(self, table: TableName, column: RelationColumn) -> Fragment:
        """Return the function for this column."""
        ...


class PendingRow(NamedTuple):
    """A row whose payload lacks values that the log left out.

    Args:
        row: its index in the buffer.
        encoder: encodes it.
        values: the row, with OMITTED.
        xid: the low 32 bits of its transaction's id.
    """

    row: int
    encoder: RowEncoder
    values: Row
    xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The columns that identify the rows of a table in its changes.

    Args:
        columns: the columns; () if unknown.
        is_required: whether each change must have a value of each column. Otherwise a change has the columns of its
            replica identity, except with REPLICA IDENTITY FULL.
        is_logged: whether old rows of a partitioned table have the columns, by the replica identities of its
            partitions; None for any other table, because its relation in the log shows this.
    """

    columns: tuple[str, ...] = ()
    is_required: bool = False
    is_logged: bool | None = None


class RowEncoder:
    """Encodes the rows of a relation.

    Args:
        relation: the table at this time.
        key: what identifies a row.
        fragments: encodes values.
        first_kind: index of the first kind of the relation; its kinds follow in the order of the operations.
    """

    def __init__(self, relation: Relation, key: RowKey, fragments: FragmentFactory, first_kind: int) -> None:
        self.relation = relation
        kinds = range(first_kind, first_kind + len(_OPERATIONS))
        self.insert, self.update, self.delete, self.truncate, self.unreadable = kinds
        self._columns = [
            (json.dumps(column.name, ensure_ascii=False) + ":", fragments(relation.table, column))
            for column in relation.columns
        ]
        names = [column.name for column in relation.columns]
        flagged = tuple(index for index, column in enumerate(relation.columns) if column.is_key)
        places = tuple(names.index(name) for name in key.columns) if {*key.columns} <= {*names} else ()
        self.key = places if relation.is_full or (key.is_required and places) else flagged
        self._key_names = key.columns
        self._needed = places if key.is_required else ()
        self._is_keyless = key.is_required and not places
        is_logged = relation.is_full or {*places} <= {*flagged} if key.is_logged is None else key.is_logged
        self.logs_key = is_logged or not key.is_required

    def payload(self, values: Row) -> str:
        """Return the JSON object of a row."""
        return _json_object(self._columns, values)

    def lacks_key(self, values: Row) -> bool:
        """Whether a row, new or old, lacks a required value of the key."""
        return self._is_keyless or any(values[index] is None for index in self._needed)

    def payloads(self, columns: Sequence[Sequence[str | None]]) -> list[str]:
        """Return the JSON objects of many rows, given as values by column.

        Raises:
            SourceError: DATABASE_CHANGE_WITHOUT_KEY, or the error of a value.
        """
        if self._is_keyless or any(None in columns[index] for index in self._needed):
            raise self.key_fault()
        parts: list[Iterable[str]] = []
        separator = "{"
        for (name, fragment), values in zip(self._columns, columns, strict=True):
            parts.append(repeat(separator + name))
            parts.append(["null" if value is None else fragment(value) for value in values])
            separator = ","
        return list(map("".join, zip(*parts, repeat("}"), strict=False)))

    def old_payload(self, old: Row) -> str:
        """Return the JSON object of an old row: its key, or all of it with REPLICA IDENTITY FULL."""
        if self.relation.is_full:
            return _json_object(self._columns, old)
        return self.key_payload(old)

    def key_payload(self, old: Row) -> str:
        """Return the JSON object of the key of a row."""
        return _json_object([self._columns[index] for index in self.key], [old[index] for index in self.key])

    def key_fault(self) -> SourceError:
        """Return the error of a row without a key value to identify it."""
        return SourceError("DATABASE_CHANGE_WITHOUT_KEY", table=self.relation.table, columns=", ".join(self._key_names))

    def moves(self, old: Row, new: Row) -> bool:
        """Whether an update is written as a delete and an insert: its key differs, or nothing identifies the row.

        Values are compared as text. Equal values with different texts (1.0 and 1.00) become two rows of changes, with
        the same final table.
        """
        return not self.key or any(old[index] != new[index] for index in self.key)


class ChangeEncoder:
    """Turns messages of changes into rows of a buffer.

    Args:
        fragments: encodes values as JSON.
        keys: what identifies the rows of tables.
        buffer: receives the rows.
        keeps_unreadable: whether a row that can't be encoded is kept with the operation UNREADABLE. Otherwise it is an
            error, which ends the changes of all tables.
        tables: oids of tables with their names; changes get the last name of an oid. A change of another table under
            one of these names has the operation REPLACED. A table that is missing here keeps its name at the time of
            the change.
        partitions: oids of partitions with the names of their tables. The log shows partitions as separate tables while
            the publication lacks `publish_via_partition_root`.
        watch: records the partitions in the log; none if omitted.
    """

    def __init__(
        self,
        fragments: FragmentFactory,
        keys: Mapping[TableName, RowKey],
        buffer: ChangeBuffer,
        *,
        keeps_unreadable: bool = False,
        tables: Sequence[tuple[int, TableName]] = (),
        partitions: Sequence[tuple[int, TableName]] = (),
        watch: PartitionWatch | None = None,
    ) -> None:
        self._watch = watch or PartitionWatch(())
        self._partitions = frozenset(oid for oid, _ in partitions)
        self._tables = dict([*partitions, *tables])
        self._names = frozenset(name for _, name in tables)
        self.kinds: list[ChangeKind] = []
        self.xid = 0
        self._fragments = fragments
        self._keys = keys
        self._buffer = buffer
        self._keeps_unreadable = keeps_unreadable
        self._encoders: dict[int, RowEncoder] = {}
        self._known: dict[Relation, RowEncoder] = {}
        self._add_kind = buffer.kinds.append
        self._add_payload = buffer.payloads.append

    def relate(self, relation: Relation) -> None:
        """Use this relation for the changes that follow.

        The server sends a relation before its first change and after each change of its schema, in every stream.
        """
        self._watch.relate(relation, self.xid)
        name = self._tables.get(relation.oid)
        if name is not None and name != relation.table:  # it was renamed before or after this change
            relation = replace(relation, table=name)
        is_other = name is None and relation.table in self._names
        encoder = self._known.get(relation)
        if encoder is None:
            key = self._keys.get(relation.table, RowKey())
            encoder = RowEncoder(relation, key, self._fragments, len(self.kinds))
            self.kinds += [ChangeKind(relation, REPLACED if is_other else operation) for operation in _OPERATIONS]
            self._known[relation] = encoder
        self._encoders[relation.oid] = encoder

    def insert(self, data: bytes, at: int) -> None:
        """Add the row of an Insert, whose oid is at this index."""
        encoder = self._encoder(read_oid(data, at))
        try:
            row = read_row(data, at + 5)[0]
            if encoder.lacks_key(row):
                raise encoder.key_fault()
            payload = encoder.payload(row)
        except _FAULTS as fault:
            self._add_unreadable(encoder, fault)
        else:
            self._add_kind(encoder.insert)
            self._add_payload(payload)

    def inserts(self, messages: Sequence[bytes], at: int) -> None:
        """Add the rows of Inserts of one relation, whose oid is at this index; faster than one by one."""
        encoder = self._encoder(read_oid(messages[0], at))
        if len(messages) >= _RUN and encoder.relation.columns:
            with suppress(*_FAULTS):
                self._buffer.payloads += encoder.payloads(read_columns(messages, at + 5))
                self._buffer.kinds += [encoder.insert] * len(messages)
                return
        for data in messages:  # one of them may be unreadable
            self.insert(data, at)

    def update(self, data: bytes, at: int) -> None:
        """Add the rows of an Update, whose oid is at this index."""
        encoder = self._encoder(read_oid(data, at))
        try:
            old, new = read_update(data, at + 4)
        except UnicodeDecodeError as fault:
            self._add_unreadable(encoder, fault)
            return
        # Without an old row, no column of the replica identity changed; a key outside of it may have changed.
        if encoder.lacks_key(old) if old is not None else not encoder.logs_key:
            self._add_unreadable(encoder, encoder.key_fault())
            return
        if old is not None:
            # A value that was left out is not NULL, while the old row has NULL in the columns that it lacks. The
            # relation does not show these columns: it has the replica identity of the table, not of the partition.
            values = zip(old, new, strict=True)
            new = [before if after is OMITTED and before is not None else after for before, after in values]
            if encoder.moves(old, new):
                self._add_old(encoder, old)
                self._add_row(encoder, encoder.insert, new)
                return
        self._add_row(encoder, encoder.update, new)

    def delete(self, data: bytes, at: int) -> None:
        """Add the row of a Delete, whose oid is at this index."""
        encoder = self._encoder(read_oid(data, at))
        try:
            old = read_row(data, at + 5)[0]
        except UnicodeDecodeError as fault:
            self._add_unreadable(encoder, fault)
            return
        if encoder.lacks_key(old):
            self._add_unreadable(encoder, encoder.key_fault())
        else:
            self._add_old(encoder, old)

    def truncate(self, message: Truncate) -> None:
        """Add one row for each truncated table."""
        self._watch.truncate(message, self.xid)
        for oid in message.relations:
            encoder = self._encoder(oid)
            if oid in self._partitions:  # the rows that were in the partition are unknown
                fault = SourceError("DATABASE_PARTITION_TRUNCATED", table=encoder.relation.table, oid=oid)
                self._add_unreadable(encoder, fault)
                continue
            self._add_kind(encoder.truncate)
            self._add_payload(None)

    def refuse(self, seen: SeenPartition) -> None:
        """Add an unreadable row for a partition that no longer exists: the rows that were in it are unknown."""
        encoder = self._encoder(seen.table)
        fault = SourceError("DATABASE_PARTITION_GONE", table=encoder.relation.table, partition=seen.name)
        self._add_unreadable(encoder, fault)

    def complete(self, pending: PendingRow, values: Row | SourceError | None) -> int:
        """Fill the payload of a pending row with its values, or with the reason why it has none; return its size.

        Without values the row no longer exists, and its change becomes a delete.
        """
        try:
            if isinstance(values, SourceError):
                raise values
            if values is None:
                payload = pending.encoder.key_payload(pending.values)
                self._buffer.kinds[pending.row] = pending.encoder.delete
            else:
                payload = pending.encoder.payload(values)
        except SourceError as fault:
            payload = self._reason(pending.encoder, fault)
            self._buffer.kinds[pending.row] = pending.encoder.unreadable
        self._buffer.payloads[pending.row] = payload
        return len(payload)

    def _encoder(self, oid: int) -> RowEncoder:
        try:
            return self._encoders[oid]
        except KeyError:
            raise InternalError("POSTGRES_LOG_MESSAGE_UNKNOWN", kind=f"change of relation {oid}") from None

    def _add_row(self, encoder: RowEncoder, kind: int, values: Row) -> None:
        is_partial = OMITTED in values
        if encoder.lacks_key(values) or (is_partial and any(values[index] is OMITTED for index in encoder.key)):
            self._add_unreadable(encoder, encoder.key_fault())
            return
        if is_partial:
            self._buffer.pending.append(PendingRow(len(self._buffer.kinds), encoder, values, self.xid))
            self._add_payload(None)
            self._add_kind(kind)
            return
        try:
            payload = encoder.payload(values)
        except SourceError as fault:
            self._add_unreadable(encoder, fault)
        else:
            self._add_payload(payload)
            self._add_kind(kind)

    def _add_old(self, encoder: RowEncoder, old: Row) -> None:
        try:
            payload = encoder.old_payload(old)
        except SourceError as fault:
            self._add_unreadable(encoder, fault)
        else:
            self._add_kind(encoder.delete)
            self._add_payload(payload)

    def _add_unreadable(self, encoder: RowEncoder, fault: SourceError | UnicodeDecodeError) -> None:
        reason = self._reason(encoder, fault)
        self._add_kind(encoder.unreadable)
        self._add_payload(reason)

    def _reason(self, encoder: RowEncoder, fault: SourceError | UnicodeDecodeError) -> str:
        """Return the reason why a row can't be encoded; raise it if unreadable rows are not kept."""
        if not isinstance(fault, SourceError):
            fault = SourceError("DATABASE_TEXT_NOT_UTF8", table=encoder.relation.table, cause=fault.reason)
        if not self._keeps_unreadable:
            raise fault
        return one_line(fault.what)


def _json_object(columns: Sequence[tuple[str, Fragment]], values: Iterable[Any]) -> str:
    """Return a JSON object of the values by column; no value may be OMITTED."""
    fragments = [
        name + "null" if value is None else name + fragment(value)
        for (name, fragment), value in zip(columns, values, strict=True)
    ]
    return "{" + ",".join(fragments) + "}"
