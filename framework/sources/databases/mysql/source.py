"""A session at a MySQL or MariaDB server, as the port defines it: its methods call the functions of this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.findings import PreflightFinding
from framework.sources.databases.mysql import preflight
from framework.sources.databases.mysql.chunks.boundaries import BoundaryWalker
from framework.sources.databases.mysql.history import LogHistory
from framework.sources.databases.mysql.logged_tables import MysqlTables
from framework.sources.databases.mysql.position import safe_position
from framework.sources.databases.mysql.retention import read_log_reach
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.mysql.tables import catalog
from framework.sources.databases.mysql.tables.key_lookup import missing_keys
from framework.sources.databases.position import Position
from framework.sources.databases.source_session import Gap, LogName, LogReach, LogStatus, Obstacle
from framework.sources.databases.tables import SourceTable, TableName


class MysqlSource:
    """A session.

    Args:
        connection: the connection.
        read_only: whether transactions are read-only.
        lock_seconds: how long a statement waits for a lock; None for as long as it takes.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """

    def __init__(self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None) -> None:
        self.session = Session(connection, read_only=read_only)
        if lock_seconds is not None:
            self.session.execute(f"SET SESSION lock_wait_timeout = {max(1, round(lock_seconds))}")

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
        """Return that no table inherits from another."""
        del names
        return {}

    def check_filter(self, name: TableName, condition: str) -> None:
        """Let the server check a condition; no row is read."""
        BoundaryWalker(self.session, name, source_identity="", row_filter=condition).check_row_filter()

    def missing_keys(
        self, table: SourceTable, columns: Sequence[str], keys: Sequence[Sequence[str]], as_text: Collection[str]
    ) -> list[int]:
        """Return the indexes of the keys that a table does not have."""
        return missing_keys(self.session, table, columns, keys, as_text)

    def check(self, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
        """Return the findings of the preflight."""
        del log
        return preflight.check(self.session, names)

    def logged_tables(self, log: LogName) -> MysqlTables:
        """Return the tables of the log: all of them."""
        del log
        return MysqlTables(session=self.session)

    def ensure_position(self, log: LogName, names: Sequence[TableName], *, reader: str = "") -> Position:
        """Return a safe position; nothing is made at the server."""
        del names, reader
        return self.settled_position(log)

    def settled_position(self, log: LogName, after: str | None = None) -> Position:
        """Return a position below which every change is visible, in the epoch in which the log goes on."""
        del log
        found = safe_position(self.session)
        if after is None:
            return found.position
        stored = StoredPosition.from_json(after)
        epoch = stored.place.epoch + (stored.source != found.source)
        return replace(found, place=replace(found.place, epoch=epoch)).position

    def drop_position(self, log: LogName, *, reader: str = "") -> None:
        """Do nothing: the server keeps nothing for a reader."""

    def find_gap(self, stored: str, log: LogName) -> Gap | None:
        """Return why the log can't be read on from a stored offset."""
        return LogHistory(self.session, log.position).find_gap(StoredPosition.from_json(stored))

    def log_reach(self, stored: str | None, log: LogName) -> LogReach:
        """Return the log after a position, and when the server removes it."""
        del log
        return read_log_reach(self.session, None if stored is None else StoredPosition.from_json(stored))

    def log_status(self, log: LogName) -> LogStatus | None:
        """Return that the server keeps nothing for a reader."""
        del log
        return None

    def is_waiting(self) -> bool:
        """Return that nobody waits for longer than a commit takes."""
        return False

    def starting_waits(self, log: LogName, *, is_certain: bool) -> tuple[Obstacle, ...]:
        """Return that nobody waits for longer than a commit takes."""
        del log, is_certain
        return ()

    def table_locks(self, names: Sequence[TableName]) -> tuple[Obstacle, ...]:
        """Return no locks: a read waits for none but that of an ALTER TABLE or LOCK TABLES."""
        del names
        return ()

    def log_holder(self, log: LogName) -> Obstacle | None:
        """Return that everybody may read the log."""
        del log
        return None
