"""The port to a source database: what `ingest` and `recovery` ask of an open session, whatever the dialect."""

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
    """What a gateway is called at its source.

    Args:
        position: the name of its position, where the database keeps one (PostgreSQL: of the slot).
        tables: the name of its list of tables, where the log has one (PostgreSQL: of the publication).
    """

    position: str
    tables: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """What earlier updates know of a source table whose changes a copy needs from the log.

    Args:
        is_begun: whether its snapshot has planned a chunk, so that the log had it.
        continuity: what the last update that could copy it found, see `LoggedTables.continuity`; empty before.
        planned: the continuity in the plan of its snapshot; empty before the first chunk.
        accepted: the continuity up to which an operator knows of rows that came or went without an entry in the log,
            and reads them again; empty without such rows.
        is_missed: whether all its rows are read again, because an update did not have it.
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
    """Why the log cannot be read from a stored position without a loss.

    Args:
        condition: DATABASE_POSITION_LOST and its kind.
        fields: of the texts of the condition.
    """

    condition: str
    fields: Mapping[str, object] = field(default_factory=dict)

    def error(self) -> SourceError:
        """Return the fault to raise."""
        return SourceError(self.condition, location=None, **self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """What the database says of the position that it keeps for a gateway.

    Args:
        is_active: whether the log is read now.
        position: the position up to which its changes are durable here; None if it is unknown.
        retained_bytes: the log that the database keeps for it; None if the log is lost.
        state: whether the log that it needs is there, in the words of the database; empty if it has none.
    """

    is_active: bool
    position: int | None
    retained_bytes: int | None
    state: str = ""


class Obstacle(Protocol):
    """What somebody does at the source that a gateway waits for, as text."""

    @property
    def way_out(self) -> str:
        """The statement that ends it."""
        ...


class LoggedTables(Protocol):
    """The tables that a log has, read once for all tables of a gateway."""

    @property
    def has_log(self) -> bool:
        """Whether the position of the gateway exists, so that changes may be staged that its tables had before."""
        ...

    def has_table(self, name: TableName) -> bool:
        """Whether the log has the changes of a table."""
        ...

    def continuity(self, source: SourceTable) -> str:
        """Return what tells a table, and its part of the log, from those of the same name, as text of the dialect.

        It is another text if the table is another one, if the log was without it, or if rows came or went in a way that
        the log does not show. It is stored, compared for equality, and handed back.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def fault(self, source: SourceTable, continuity: str) -> SluiceError | None:
        """Return the fault of a table that is another one than before, or whose log had a pause; None if it is not.

        It reads nothing: what only the log shows is left to `refuse`.

        Args:
            source: the table.
            continuity: as it was recorded; empty if nothing was.

        Raises:
            SourceError: DATABASE_CONTINUITY_INVALID.
        """
        ...

    def among(self, sources: Sequence[SourceTable]) -> LoggedTables:
        """Return them with what `refuse` has to know of some tables, which is read once for all.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table whose changes the log does not have, or which is another one than before.

        Args:
            source: the table.
            known: what earlier updates know of it; None if it is read again as a whole, or there is no log.

        Raises:
            SluiceError: the fault of the table, with the statement that mends it; or the database can't be read.
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
        """Return tables, or the fault of each one that can't be read.

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
        """Return the tables that inherit from tables, whose rows no copy of these has.

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
            as_text: the columns that the copy has as text.

        Raises:
            SourceError: the database can't be read.
        """
        ...


class SourceLog(Protocol):
    """The log of a database, and the position that it keeps for a gateway."""

    def check(self, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
        """Return what the database lacks for the ingestion of tables, each with the statement that mends it.

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
        """Make or find the position of a gateway: the log has all changes of the tables that a later chunk misses.

        Idempotent, and safe in several processes at once.

        Args:
            log: the log.
            names: its tables.
            reader: the root of the storage that reads it, `#`, and an id; empty for a reader without a storage.

        Raises:
            SluiceError: another one has it, or the database does not allow it now.
        """
        ...

    def settled_position(self, log: LogName) -> Position:
        """Return a position below which each change is visible to all later reads.

        Raises:
            SourceError: a transaction is open for too long, or the database can't be read.
        """
        ...

    def drop_position(self, log: LogName, *, reader: str = "") -> None:
        """Drop what `ensure_position` made, as far as it exists.

        Raises:
            SluiceError: it belongs to another reader, or is read now.
        """
        ...

    def find_gap(self, stored: str, log: LogName) -> Gap | None:
        """Return why the log can't be read on from a stored offset; None if it can.

        Raises:
            SourceError: the offset is damaged, or the database can't be read.
        """
        ...

    def log_end(self) -> Position:
        """Return the end of the log.

        Raises:
            SourceError: the database can't be read.
        """
        ...

    def log_status(self, log: LogName) -> LogStatus | None:
        """Return what the database says of the position of a gateway; None if there is none.

        Raises:
            SourceError: the database can't be read.
        """
        ...


class SourceWaits(Protocol):
    """What a gateway waits for at its source."""

    def is_waiting(self) -> bool:
        """Whether some process waits until older transactions have ended, whatever its log.

        Raises:
            SourceError: the database gives no answer.
        """
        ...

    def starting_waits(self, log: LogName, *, is_certain: bool) -> Sequence[Obstacle]:
        """Return the transactions for which the start of a snapshot waits; none if no process waits.

        Args:
            log: the log.
            is_certain: whether a process waits now; else the database says whether one of the log does.

        Raises:
            SourceError: the database gives no answer.
        """
        ...

    def table_locks(self, names: Sequence[TableName]) -> Sequence[Obstacle]:
        """Return the locks under which tables can't be read.

        Raises:
            SourceError: the database gives no answer.
        """
        ...

    def log_holder(self, log: LogName) -> Obstacle | None:
        """Return who reads a log that only one may read; None if nobody does.

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
