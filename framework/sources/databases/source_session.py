"""The port to a source database: the methods of an open session that `ingest` and `recovery` use, for any dialect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from framework.foundation.errors import SluiceError, SourceError
from framework.sources.databases.findings import PreflightFinding
from framework.sources.databases.position import Position
from framework.sources.databases.tables import SourceTable, TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """The names of a gateway at its source.

    Args:
        position: the name of its position, where the database keeps one (PostgreSQL: of the slot).
        tables: the name of its list of tables, where the log has one (PostgreSQL: of the publication).
    """

    position: str
    tables: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """The recorded facts about a source table whose changes a copy needs from the log.

    Args:
        is_begun: whether its snapshot has planned a chunk, so that the log had the table.
        continuity: the continuity in the last update that could copy it, see `LoggedTables.continuity`; empty before.
        planned: the continuity in the plan of its snapshot; empty before the first chunk.
        accepted: the continuity up to which an operator reads the rows again that came or went without an entry in the
            log; empty without such rows.
        is_missed: whether all its rows are read again, because an update ran without it.
        position: the last position of the changes, as text of the dialect; empty if none was planned.
    """

    is_begun: bool
    continuity: str = ""
    planned: str = ""
    accepted: str = ""
    is_missed: bool = False
    position: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The reason why the log can't be read from a stored position without losing changes.

    Args:
        condition: DATABASE_POSITION_LOST and its kind.
        fields: the fields of the texts of the condition.
    """

    condition: str
    fields: Mapping[str, object] = field(default_factory=dict)

    def error(self) -> SourceError:
        """Return the error to raise."""
        return SourceError(self.condition, location=None, **self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """The status of the position that a database keeps for a gateway.

    Args:
        is_active: whether the log is read now.
        position: the position up to which its changes are durable here; None if it is unknown.
        retained_bytes: the log that the database keeps for it; None if the log is lost.
        state: whether the log that it needs still exists, in the terms of the database; empty if it has no such state.
    """

    is_active: bool
    position: int | None
    retained_bytes: int | None
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReach:
    """How far a position is behind the log, and how long the log after it is kept; None for what the database hides.

    Args:
        behind_bytes: the size of the log after the position.
        behind_seconds: the most time since the first change after the position; 0 without such a change.
        kept_seconds: how long the log is kept, read or not; None without a limit by age.
        room_bytes: how much may be written until the log after the position is removed; None without a limit by size.
        lost_in_seconds: when changes after the position begin to be lost if nobody reads them; None if never. For a
            limit by size, an estimate by the average rate.
        setting: the setting of the limit that is reached first; empty without a limit.
    """

    behind_bytes: int | None = None
    behind_seconds: float | None = None
    kept_seconds: float | None = None
    room_bytes: int | None = None
    lost_in_seconds: float | None = None
    setting: str = ""


class Obstacle(Protocol):
    """A transaction, lock or reader at the source that a gateway waits for, as text."""

    @property
    def way_out(self) -> str:
        """The statement that ends the wait."""
        ...


class LoggedTables(Protocol):
    """The tables that a log has, read once for all tables of a gateway."""

    @property
    def has_log(self) -> bool:
        """Whether the position of the gateway exists, so that earlier changes of its tables may be staged."""
        ...

    def has_table(self, name: TableName) -> bool:
        """Whether the log has the changes of a table."""
        ...

    def continuity(self, source: SourceTable) -> str:
        """Return a text of the dialect that identifies a table and its part of the log beyond their names.

        The text changes if the table is replaced, if the log was without the table for some time, or if rows came or
        went in a way that the log does not show. The engine stores it, compares it for equality, and passes it back.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def fault(self, source: SourceTable, continuity: str) -> SluiceError | None:
        """Detect a replaced table, or a table whose changes were not logged for some time; None without such an error.

        It does not read the log: facts that only the log shows are left to `refuse`.

        Args:
            source: the table.
            continuity: the recorded continuity; empty without a record.

        Raises:
            SourceError: DATABASE_CONTINUITY_INVALID.
        """
        ...

    def among(self, sources: Sequence[SourceTable]) -> LoggedTables:
        """Return the logged tables with the facts that `refuse` needs about some tables, read once for all of them.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table whose changes are missing from the log, or which was replaced.

        Args:
            source: the table.
            known: the recorded facts about it; None if all its rows are read again, or there is no log.

        Raises:
            SluiceError: the error of the table, with the statement that fixes it; or the database can't be read.
        """
        ...


class Catalog(Protocol):
    """The tables of a database."""

    def list_tables(self, schemas: Sequence[str]) -> tuple[TableName, ...]:
        """Return the tables of schemas.

        Raises:
            SourceError: DATABASE_SCHEMA_MISSING, or the database can't be read.
        """
        ...

    def read_table(self, name: TableName) -> SourceTable:
        """Return a table with its columns and its key.

        Raises:
            SourceError: DATABASE_TABLE_MISSING, or the database can't be read.
        """
        ...

    def read_tables(self, names: Sequence[TableName]) -> Mapping[TableName, SourceTable | SourceError]:
        """Return tables, or the error of each table that can't be read.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def read_sizes(self, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
        """Return the estimated rows, and the bytes, of the tables that exist.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def read_children(self, names: Sequence[TableName]) -> Mapping[TableName, tuple[str, ...]]:
        """Return the tables that inherit from each table; copies do not have their rows.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def check_filter(self, name: TableName, condition: str) -> None:
        """Let the database check a condition for the rows of a table; no row is read.

        Raises:
            SourceError: SNAPSHOT_ROW_FILTER_INVALID, or the database can't be read.
        """
        ...

    def missing_keys(
        self, table: SourceTable, columns: Sequence[str], keys: Sequence[Sequence[str]], as_text: Collection[str]
    ) -> list[int]:
        """Return the indexes of the keys that a table does not have, ascending.

        Args:
            table: the table.
            columns: the names of the key's columns.
            keys: the values of each key, as the text of the database.
            as_text: the columns that the copy stores as text.

        Raises:
            SourceError: the database can't be read.
        """
        ...


class SourceLog(Protocol):
    """The log of a database, and the position that it keeps for a gateway."""

    def check(self, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
        """Return the findings that hinder the ingestion of tables, each with the statement that fixes it.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def logged_tables(self, log: LogName) -> LoggedTables:
        """Return the tables that a log has.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def ensure_position(self, log: LogName, names: Sequence[TableName], *, reader: str = "") -> Position:
        """Create or find the position of a gateway, so that the log has every change that a later chunk misses.

        Idempotent, and safe in several processes at once.

        Args:
            log: the log.
            names: its tables.
            reader: the root of the storage that reads it, `#`, and an id; empty for a reader without a storage.

        Raises:
            SluiceError: another reader has it, or the database does not allow it now.
        """
        ...

    def settled_position(self, log: LogName, after: str | None = None) -> Position:
        """Return a position below which every change is visible to all later reads.

        Args:
            log: the log.
            after: the stored offset of the stream of changes, whose positions it is compared with; None before the
                first. Another server may have taken the place of the one that was read.

        Raises:
            SourceError: a transaction is open for too long, or the database can't be read.
        """
        ...

    def drop_position(self, log: LogName, *, reader: str = "") -> None:
        """Drop the objects that `ensure_position` created, if they exist.

        Raises:
            SluiceError: they belong to another reader, or are in use.
        """
        ...

    def find_gap(self, stored: str, log: LogName) -> Gap | None:
        """Return why the log can't be read on from a stored offset; None if it can.

        Raises:
            SourceError: the offset is damaged, or the database can't be read.
        """
        ...

    def log_reach(self, stored: str | None, log: LogName) -> LogReach:
        """Return how far a stored offset is behind the log, and how long the log after it is kept.

        Args:
            stored: the offset; None before the first, then only the limits are known.
            log: the log.

        Raises:
            SourceError: the offset is damaged, or the database can't be read.
        """
        ...

    def log_status(self, log: LogName) -> LogStatus | None:
        """Return the status of the position of a gateway; None if there is no position.

        Raises:
            SourceError: the database can't be read.
        """
        ...


class SourceWaits(Protocol):
    """The waits of a gateway at its source."""

    def is_waiting(self) -> bool:
        """Whether any process, of any log, waits until older transactions have ended.

        Raises:
            SourceError: the database gives no answer.
        """
        ...

    def starting_waits(self, log: LogName, *, is_certain: bool) -> Sequence[Obstacle]:
        """Return the transactions that delay the start of a snapshot; none if no process waits.

        Args:
            log: the log.
            is_certain: whether a process is known to wait now; else the database is asked whether one of this log does.

        Raises:
            SourceError: the database gives no answer.
        """
        ...

    def table_locks(self, names: Sequence[TableName]) -> Sequence[Obstacle]:
        """Return the locks that block reading tables.

        Raises:
            SourceError: the database gives no answer.
        """
        ...

    def log_holder(self, log: LogName) -> Obstacle | None:
        """Return the present reader of a log that allows a single reader; None without a reader.

        Raises:
            SourceError: the database gives no answer.
        """
        ...


class SourceSession(Catalog, SourceLog, SourceWaits, Protocol):
    """An open session at a source database; each call is a transaction of its own."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Close the connection."""
        ...
