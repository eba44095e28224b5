"""A session at a SQL Server database, as the port defines it: each method calls functions of this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from framework.foundation.errors import SourceError
from framework.sources.databases.findings import PreflightFinding
from framework.sources.databases.position import Position
from framework.sources.databases.source_session import Gap, LogName, LogReach, LogStatus, Obstacle
from framework.sources.databases.sqlserver import preflight
from framework.sources.databases.sqlserver.chunks.chunk_reader import filter_fault
from framework.sources.databases.sqlserver.chunks.chunk_sql import filter_check_sql
from framework.sources.databases.sqlserver.connecting import changes_way
from framework.sources.databases.sqlserver.log import position
from framework.sources.databases.sqlserver.log.retention import read_log_reach
from framework.sources.databases.sqlserver.log.stored_position import (
    StoredPosition,
    find_gap,
    position_at,
    read_end,
)
from framework.sources.databases.sqlserver.logged_tables import SqlServerTables
from framework.sources.databases.sqlserver.tables import catalog
from framework.sources.databases.sqlserver.tables.key_lookup import missing_keys
from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.sqlserver.session import Connect

_OF_FILTER = frozenset({"DATABASE_QUERY_FAILED", "DATABASE_COLUMN_MISSING"})


class SqlServerSource:
    """A session.

    Args:
        connect: opens it.
        connection: the connection.
        lock_seconds: how long a statement waits for a lock; None for as long as it takes.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """

    def __init__(self, connect: Connect, connection: Connection, *, lock_seconds: float | None = None) -> None:
        self.session = connect(connection)
        self._way = changes_way(connection)
        if lock_seconds is not None:
            self.session.execute(f"SET LOCK_TIMEOUT {round(lock_seconds * 1000)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.session.close()

    def list_tables(self, schemas: Sequence[str]) -> tuple[TableName, ...]:
        """Return the tables of schemas."""
        return catalog.list_tables(self.session, schemas)

    def read_table(self, name: TableName) -> SourceTable:
        """Return a table with its columns and its key."""
        return catalog.read_table(self.session, name)

    def read_tables(self, names: Sequence[TableName]) -> Mapping[TableName, SourceTable | SourceError]:
        """Return tables, or the error of each table that can't be read."""
        return catalog.read_tables(self.session, names)

    def read_sizes(self, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
        """Return the estimated rows, and the bytes, of the tables that exist."""
        return catalog.read_sizes(self.session, names)

    def read_children(self, names: Sequence[TableName]) -> Mapping[TableName, tuple[str, ...]]:
        """Return that no table inherits from another one."""
        del names
        return {}

    def check_filter(self, name: TableName, condition: str) -> None:
        """Let the server check a condition; no row is read."""
        try:
            self.session.rows(filter_check_sql(name, condition), table=name)
        except SourceError as error:
            raise (filter_fault(name, condition, error) if error.condition in _OF_FILTER else error) from None

    def missing_keys(
        self, table: SourceTable, columns: Sequence[str], keys: Sequence[Sequence[str]], as_text: Collection[str]
    ) -> list[int]:
        """Return the indexes of the keys that a table does not have."""
        return missing_keys(self.session, table, columns, keys, as_text)

    def check(self, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
        """Return the findings of the preflight."""
        return preflight.check(self.session, names, log)

    def logged_tables(self, log: LogName) -> SqlServerTables:
        """Return the tables that have capture instances or change tracking."""
        return SqlServerTables.read(self.session, log)

    def ensure_position(self, log: LogName, names: Sequence[TableName], *, reader: str = "") -> Position:
        """Make the missing capture instances; any number of readers may use them."""
        del reader
        return position.ensure_position(self.session, log, names)

    def settled_position(self, log: LogName, after: str | None = None) -> Position:
        """Return the end of what the capture job has read: chunks wait for the locks of what is before it."""
        del log, after
        return position_at(self._way, read_end(self.session))

    def drop_position(self, log: LogName, *, reader: str = "") -> None:
        """Drop the capture instances that Sluice made."""
        del reader
        position.drop_position(self.session, log)

    def find_gap(self, stored: str, log: LogName) -> Gap | None:
        """Return why the log can't be read on from a stored offset."""
        return find_gap(self.session, StoredPosition.from_json(stored), log.position)

    def log_reach(self, stored: str | None, log: LogName) -> LogReach:
        """Return how long the changes after a position are kept."""
        del log
        return read_log_reach(self.session, None if stored is None else StoredPosition.from_json(stored))

    def log_status(self, log: LogName) -> LogStatus | None:
        """Return that the database keeps no position."""
        del log
        return None

    def is_waiting(self) -> bool:
        """Return that nothing waits for older transactions."""
        return False

    def starting_waits(self, log: LogName, *, is_certain: bool) -> Sequence[Obstacle]:
        """Return that nothing waits for older transactions."""
        del log, is_certain
        return ()

    def table_locks(self, names: Sequence[TableName]) -> Sequence[Obstacle]:
        """Return nothing: locks of others are seen with the rights of an administrator only."""
        del names
        return ()

    def log_holder(self, log: LogName) -> Obstacle | None:
        """Return that any number of readers may read."""
        del log
        return None
