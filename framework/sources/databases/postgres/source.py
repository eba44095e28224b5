"""A session at a PostgreSQL server, as the port defines it: each method calls one of the functions of this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.findings import PreflightFinding
from framework.sources.databases.position import Position
from framework.sources.databases.postgres import open_transactions, preflight, session
from framework.sources.databases.postgres.chunks.boundaries import BoundaryWalker
from framework.sources.databases.postgres.log import position
from framework.sources.databases.postgres.log.position_check import StoredPosition, check_position, other_slot_gap
from framework.sources.databases.postgres.log.slot_status import read_log_reach, read_slot_status
from framework.sources.databases.postgres.logged_tables import PostgresTables
from framework.sources.databases.postgres.lsn import format_lsn
from framework.sources.databases.postgres.open_transactions import OpenTransaction, SlotReader, TableLock
from framework.sources.databases.postgres.tables import catalog, membership
from framework.sources.databases.postgres.tables.key_lookup import missing_keys
from framework.sources.databases.source_session import Gap, LogName, LogReach, LogStatus
from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from framework.sources.databases.postgres.session import Session


_CHILDREN = """
    SELECT n.nspname, c.relname,
           array_agg(format('%%I.%%I', cn.nspname, child.relname) ORDER BY cn.nspname, child.relname)
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhparent
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_class AS child ON child.oid = i.inhrelid
    JOIN pg_namespace AS cn ON cn.oid = child.relnamespace
    WHERE c.relkind = 'r' AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    GROUP BY n.nspname, c.relname
"""


class PostgresSource:
    """A session.

    Args:
        connection: the connection.
        read_only: whether transactions are read-only.
        lock_seconds: how long a statement waits for a lock; None for as long as it takes.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """

    def __init__(self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None) -> None:
        self.session = session.Session(connection, read_only=read_only)
        if lock_seconds is not None:
            self.session.execute(f"SET lock_timeout = '{lock_seconds:g}s'")

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
        """Return the tables that inherit from tables."""
        return read_children(self.session, names)

    def check_filter(self, name: TableName, condition: str) -> None:
        """Let the server check a condition; no row is read."""
        source = catalog.read_table(self.session, name)
        BoundaryWalker(self.session, source, source_identity="", row_filter=condition).check_row_filter()

    def missing_keys(
        self, table: SourceTable, columns: Sequence[str], keys: Sequence[Sequence[str]], as_text: Collection[str]
    ) -> list[int]:
        """Return the indexes of the keys that a table does not have."""
        return missing_keys(self.session, table, columns, keys, as_text)

    def check(self, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
        """Return the findings of the preflight."""
        return preflight.check(self.session, names, slot=log.position, publication=log.tables)

    def logged_tables(self, log: LogName) -> PostgresTables:
        """Return the tables of a publication."""
        published = membership.read_membership(self.session, log.position, log.tables)
        return PostgresTables(session=self.session, log=log, published=published)

    def ensure_position(self, log: LogName, names: Sequence[TableName], *, reader: str = "") -> Position:
        """Create or find the slot, and publish tables."""
        found = position.ensure_position(self.session, log.position, log.tables, names, reader=reader)
        return _position(found.lsn)

    def settled_position(self, log: LogName, after: str | None = None) -> Position:
        """Return the end of the durable log, once every transaction that committed before it is visible."""
        del after
        return _position(position.settled_position(self.session, log.position))

    def drop_position(self, log: LogName, *, reader: str = "") -> None:
        """Drop the slot and the publication."""
        position.drop_position(self.session, log.position, log.tables, reader=reader)

    def find_gap(self, stored: str, log: LogName) -> Gap | None:
        """Return why the log can't be read on from a stored offset."""
        read = StoredPosition.from_json(stored)
        return other_slot_gap(read, log.position, log.tables) or check_position(self.session, read)

    def log_reach(self, stored: str | None, log: LogName) -> LogReach:
        """Return the log after a position, and the limits of what a slot keeps."""
        lsn = None if stored is None else StoredPosition.from_json(stored).lsn
        return read_log_reach(self.session, log.position, lsn)

    def log_status(self, log: LogName) -> LogStatus | None:
        """Return the status of the slot."""
        return read_slot_status(self.session, log.position)

    def is_waiting(self) -> bool:
        """Whether any process waits until older transactions have ended."""
        return open_transactions.is_waiting(self.session)

    def starting_waits(self, log: LogName, *, is_certain: bool) -> tuple[OpenTransaction, ...]:
        """Return the transactions that delay the start of a snapshot."""
        if not is_certain and not open_transactions.is_starting(self.session, log.position, log.tables):
            return ()
        return open_transactions.open_transactions(self.session, log.position)

    def table_locks(self, names: Sequence[TableName]) -> tuple[TableLock, ...]:
        """Return the locks that block reading tables."""
        return open_transactions.table_locks(self.session, names)

    def log_holder(self, log: LogName) -> SlotReader | None:
        """Return the session that reads the slot."""
        return open_transactions.slot_reader(self.session, log.position)


def _position(lsn: int) -> Position:
    return Position(order=lsn, text=format_lsn(lsn))


def read_children(session: Session, names: Sequence[TableName]) -> dict[TableName, tuple[str, ...]]:
    """Return the child tables, with their names in SQL, of each table that has any.

    Raises:
        SourceError: the server gives no answer.
    """
    rows = session.rows(_CHILDREN, [[name.schema for name in names], [name.table for name in names]])
    return {TableName(schema=schema, table=table): tuple(children) for schema, table, children in rows}
