"""Rows of changes from the row events of the log: operation, schema version and payload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.mysql.log.events import HEADER_SIZE, read_length
from framework.sources.databases.mysql.log.log_values import ValueFaultError
from framework.sources.databases.mysql.log.row_decoder import (
    KeyFaultError,
    RowDecoder,
    Selection,
    UnreadableColumnError,
)
from framework.sources.databases.mysql.log.table_map import IF_SET, LoggedTable, TextDecoder
from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind
from framework.sources.databases.tables import REPLACED, UNREADABLE

_OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", UNREADABLE, REPLACED)
_INSERT, _UPDATE, _DELETE, _TRUNCATE, _UNREADABLE, _REPLACED = range(6)
_LONGEST_VALUE = 100
_FAULTS = (ValueFaultError, KeyFaultError, UnicodeDecodeError, SourceError)
_BROKEN = (StructError, IndexError, ValueError, OverflowError)
_read_extra = Struct("<H").unpack_from
_AddRows = Callable[[RowDecoder, bytes, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """What is known of a table whose changes are read.

    Args:
        key: the columns that identify its rows; () if unknown.
        needs_key: whether each row must have a value of each of them.
        text_columns: the columns that are read as the database's text.
        types: the types of columns in the catalog, where the log does not have them: `uuid`, `inet6`, `inet4`.
        known_from: the order of the place from which the name means this table; a table that is given the name later
            replaces it.
    """

    key: tuple[str, ...] = ()
    needs_key: bool = False
    text_columns: Collection[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    known_from: int = 0

    @property
    def selection(self) -> Selection:
        """What a decoder makes of its columns."""
        return Selection(key=self.key, needs_key=self.needs_key, text_columns=self.text_columns, types=self.types)


@dataclass(frozen=True, slots=True)
class RowImages:
    """Where the rows of an event are.

    Args:
        start: the index of the first row.
        problem: why they can't be read; empty if they can.
    """

    start: int
    problem: str = ""


def read_images(data: bytes, table: LoggedTable, *, has_extra: bool, is_update: bool) -> RowImages:
    """Decode the start of a row event: which columns its images have.

    Args:
        data: the event.
        table: the table.
        has_extra: whether the header has extra data, as version 2 of the events has.
        is_update: whether there is an image before and one after the change.
    """
    at = HEADER_SIZE + 8
    if has_extra:
        at += _read_extra(data, at)[0]
    width, at = read_length(data, at)
    size = (width + 7) // 8
    if width != len(table.columns):
        return RowImages(at, f"its rows have {width} columns, and the table has {len(table.columns)}")
    whole = (1 << width) - 1
    for _ in range(1 + is_update):
        if int.from_bytes(data[at : at + size], "little") & whole != whole:
            return RowImages(at, f"its rows lack columns: binlog_row_image was not FULL; {IF_SET}")
        at += size
    return RowImages(at)


class TableChanges:
    """Turns row events of a table, as the log describes it, into rows of a buffer.

    Args:
        table: the table.
        copied: what is known of it.
        texts: decodes texts.
        buffer: receives the rows.
        first_kind: the index of its first kind; the others follow in the order of the operations.
        keeps_unreadable: whether a row that can't be read is kept with the operation UNREADABLE. Otherwise it is an
            error, which ends the changes of all tables.
    """

    def __init__(
        self,
        table: LoggedTable,
        copied: CopiedTable,
        texts: TextDecoder,
        *,
        buffer: ChangeBuffer,
        first_kind: int,
        keeps_unreadable: bool,
    ) -> None:
        self.table = table
        self._copied = copied
        self._buffer = buffer
        self._first = first_kind
        self._keeps_unreadable = keeps_unreadable
        self._problem = table.problem
        self._decoder: RowDecoder | None = None
        if not self._problem:
            try:
                self._decoder = RowDecoder(table, copied.selection, texts)
            except UnreadableColumnError as error:
                self._problem = str(error)

    def insert(self, data: bytes, *, has_extra: bool) -> None:
        """Add the rows of a WRITE_ROWS event."""
        self._add(data, self._inserts, has_extra=has_extra, is_update=False)

    def update(self, data: bytes, *, has_extra: bool) -> None:
        """Add the rows of an UPDATE_ROWS event; an update of the key is a delete and an insert."""
        self._add(data, self._updates, has_extra=has_extra, is_update=True)

    def delete(self, data: bytes, *, has_extra: bool) -> None:
        """Add the rows of a DELETE_ROWS event."""
        self._add(data, self._deletes, has_extra=has_extra, is_update=False)

    def truncate(self) -> None:
        """Add the row of a TRUNCATE."""
        self._buffer.kinds.append(self._first + _TRUNCATE)
        self._buffer.payloads.append(None)

    def replace(self) -> None:
        """Add the row that says that another table may have the name from now on."""
        self._buffer.kinds.append(self._first + _REPLACED)
        self._buffer.payloads.append(None)

    def refuse(self, problem: str) -> None:
        """Add an unreadable row.

        Raises:
            SourceError: MYSQL_CHANGE_UNREADABLE, if unreadable rows are not kept.
        """
        self._refuse(SourceError("MYSQL_CHANGE_UNREADABLE", table=self.table.table, problem=problem))

    def _add(self, data: bytes, add: _AddRows, *, has_extra: bool, is_update: bool) -> None:
        decoder, problem = self._decoder, self._problem
        if decoder is not None:
            images = read_images(data, self.table, has_extra=has_extra, is_update=is_update)
            problem = images.problem
            if not problem:
                problem = self._read_all(data, images.start, decoder, add)
        if problem:
            self.refuse(problem)

    def _read_all(self, data: bytes, start: int, decoder: RowDecoder, add: _AddRows) -> str:
        """Add the rows of an event; or none of them, and return why they can't be read."""
        kinds, payloads = self._buffer.kinds, self._buffer.payloads
        before = len(kinds)
        try:
            end = add(decoder, data, start)
            problem = "" if end == len(data) else "its rows do not end where the event ends"
        except _FAULTS:
            raise
        except _BROKEN as error:
            problem = f"its rows can't be decoded: {error}"
        if problem:
            del kinds[before:], payloads[before:]
        return problem

    def _inserts(self, decoder: RowDecoder, data: bytes, at: int) -> int:
        return self._rows(decoder, data, at, self._first + _INSERT)

    def _rows(self, decoder: RowDecoder, data: bytes, at: int, kind: int) -> int:
        decode, size, end = decoder.payloads, decoder.bitmap_size, len(data)
        add_kind, add_payload = self._buffer.kinds.append, self._buffer.payloads.append
        while at < end:
            start = at
            try:
                payload, at = decode[data[at : at + size]](data, at + size)
            except _FAULTS as fault:
                at = decoder.keys[data[start : start + size]](data, start + size)[1]
                self._refuse_row(fault)
            else:
                add_kind(kind)
                add_payload(payload)
        return at

    def _deletes(self, decoder: RowDecoder, data: bytes, at: int) -> int:
        while at < len(data):
            at = self._old(decoder, data, at)
        return at

    def _old(self, decoder: RowDecoder, data: bytes, at: int) -> int:
        """Add the delete of a row; with its key alone if another value can't be represented."""
        size = decoder.bitmap_size
        nulls, start = data[at : at + size], at + size
        try:
            try:
                payload, at = decoder.payloads[nulls](data, start)
            except (ValueFaultError, UnicodeDecodeError):
                if not decoder.has_key:
                    raise
                payload, at = decoder.key_payloads[nulls](data, start)
        except _FAULTS as fault:
            self._refuse_row(fault)
            return decoder.keys[nulls](data, start)[1]
        self._buffer.kinds.append(self._first + _DELETE)
        self._buffer.payloads.append(payload)
        return at

    def _updates(self, decoder: RowDecoder, data: bytes, at: int) -> int:
        decode, find, size, end = decoder.payloads, decoder.keys, decoder.bitmap_size, len(data)
        kind, has_key = self._first + _UPDATE, decoder.has_key
        add_kind, add_payload = self._buffer.kinds.append, self._buffer.payloads.append
        while at < end:
            first = at
            old_key, at = find[data[at : at + size]](data, at + size)
            start = at + size
            nulls = data[at:start]
            key, after = find[nulls](data, start)
            if key != old_key or not has_key:
                self._old(decoder, data, first)
                at = self._row(decoder, data, at)
                continue
            try:
                payload, at = decode[nulls](data, start)
            except _FAULTS as fault:
                at = after
                self._refuse_row(fault)
            else:
                add_kind(kind)
                add_payload(payload)
        return at

    def _row(self, decoder: RowDecoder, data: bytes, at: int) -> int:
        """Add the insert of one row."""
        size = decoder.bitmap_size
        end = decoder.keys[data[at : at + size]](data, at + size)[1]
        return self._rows(decoder, data[:end], at, self._first + _INSERT)

    def _refuse_row(self, fault: Exception) -> None:
        self._refuse(self._named(fault))

    def _refuse(self, fault: SourceError) -> None:
        if not self._keeps_unreadable:
            raise fault
        self._buffer.kinds.append(self._first + _UNREADABLE)
        self._buffer.payloads.append(one_line(fault.what))

    def _named(self, fault: Exception) -> SourceError:
        table = self.table.table
        if isinstance(fault, SourceError):
            return fault
        if isinstance(fault, KeyFaultError):
            problem = f"it has no value of the key ({', '.join(self._copied.key)})"
            return SourceError("MYSQL_CHANGE_UNREADABLE", table=table, problem=problem)
        if isinstance(fault, ValueFaultError):
            value = fault.value
            return SourceError(
                "DATABASE_VALUE_NOT_REPRESENTABLE",
                table=table,
                column=fault.column,
                value=value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…",
                type=fault.type_name,
            )
        return SourceError("MYSQL_CHANGE_UNREADABLE", table=table, problem=f"a text is invalid: {fault}")


def kinds_of(table: LoggedTable) -> list[ChangeKind]:
    """Return the kinds of the rows of a table, in the order of the operations."""
    return [ChangeKind(table, operation) for operation in _OPERATIONS]
