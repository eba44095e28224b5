"""Obstacles that Sluice waits for at a source: transactions of sessions, prepared transactions, locks, slot readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.sources.databases.postgres.chunks.chunk_sql import quote_literal
from framework.sources.databases.postgres.log.position import IS_WAITING
from framework.sources.databases.tables import TableName, quote_identifier

if TYPE_CHECKING:
    from framework.sources.databases.postgres.session import Session

_OLDEST_SECONDS = 1
"""A younger transaction may have begun after the wait."""
# Only a role that may read all statistics sees when transactions of others began; all roles see the application.
_OPEN = """
SELECT DISTINCT a.pid, p.gid, coalesce(p.database, a.datname), coalesce(a.application_name, ''),
    to_char(coalesce(p.prepared, a.xact_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM pg_locks AS l
LEFT JOIN pg_prepared_xacts AS p ON p.transaction = l.transactionid
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
    AND coalesce(p.gid, a.pid::text) IS NOT NULL AND a.pid IS DISTINCT FROM pg_backend_pid()
    AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %(slot)s AND active_pid = a.pid)
    AND coalesce(p.prepared, a.xact_start, '-infinity') < clock_timestamp() - %(seconds)s * interval '1 second'
ORDER BY 5 NULLS LAST, 1
"""
# The start of a log marks the publication until the transactions have ended; a slot in creation has no position.
_IS_STARTING = """
SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s
               AND obj_description(oid, 'pg_publication') LIKE '%%(unsettled)')
    OR EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %(slot)s AND confirmed_flush_lsn IS NULL)
"""


# A chunk is read under ACCESS SHARE, which only the strongest lock blocks.
_LOCKS = """
SELECT DISTINCT n.nspname, c.relname, a.pid, p.gid, coalesce(p.database, a.datname),
    coalesce(a.application_name, ''),
    to_char(coalesce(p.prepared, a.xact_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_locks AS own ON own.virtualtransaction = l.virtualtransaction AND own.locktype = 'transactionid'
LEFT JOIN pg_prepared_xacts AS p ON l.pid IS NULL AND p.transaction = own.transactionid
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(tables)s::text[]))
    AND coalesce(p.gid, a.pid::text) IS NOT NULL
    AND coalesce(p.prepared, a.xact_start, '-infinity') < clock_timestamp() - %(seconds)s * interval '1 second'
ORDER BY 7 NULLS LAST, 3, 1, 2
"""
_READER = """
SELECT a.pid, coalesce(a.application_name, '')
FROM pg_replication_slots AS s JOIN pg_stat_activity AS a ON a.pid = s.active_pid
WHERE s.slot_name = %(slot)s
"""
# Sessions of the same role see each other's statements; an idle session shows its last statement.
_IS_WAITING = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
               AND starts_with(query, %(statement)s))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has not ended.

    Args:
        pid: the server process of its session; None for a prepared one.
        gid: the name of a prepared transaction; None for the transaction of a session.
        database: the database.
        application: the name that its client gave itself; empty if it gave none.
        since: when it began or was prepared, in UTC; None if the role may not see it.
    """

    pid: int | None
    gid: str | None
    database: str | None
    application: str
    since: str | None

    def __str__(self) -> str:
        since = f"since {self.since} UTC" if self.since else ""
        if self.gid is not None:
            place = f"in the database {quote_identifier(self.database or '')}"
            return f"the prepared transaction {quote_literal(self.gid)} ({', '.join(filter(None, (place, since)))})"
        details = ", ".join(filter(None, (self.application, since)))
        return f"the transaction of server process {self.pid}{f' ({details})' if details else ''}"

    @property
    def way_out(self) -> str:
        """The statement that ends the transaction; its work is lost."""
        return (
            f"SELECT pg_terminate_backend({self.pid})"
            if self.gid is None
            else (f"ROLLBACK PREPARED {quote_literal(self.gid)}, or COMMIT PREPARED, in its database")
        )


def open_transactions(session: Session, slot: str) -> tuple[OpenTransaction, ...]:
    """Return the transactions that have been open for a second, oldest first; the slot's reader is left out.

    Raises:
        SourceError: the server gives no answer.
    """
    rows = session.rows(_OPEN, {"slot": slot, "seconds": _OLDEST_SECONDS})
    return tuple(
        OpenTransaction(pid=pid, gid=gid, database=database, application=application, since=since)
        for pid, gid, database, application, since in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLock:
    """A transaction whose lock blocks all reads of a table.

    Args:
        name: the table.
        holder: the transaction.
    """

    name: TableName
    holder: OpenTransaction

    def __str__(self) -> str:
        return f"{self.name} is locked by {self.holder}"

    @property
    def way_out(self) -> str:
        """The statement that ends it."""
        return self.holder.way_out


def table_locks(session: Session, names: Sequence[TableName]) -> tuple[TableLock, ...]:
    """Return the locks that have blocked reading tables for a second or longer.

    Raises:
        SourceError: the server gives no answer.
    """
    wanted = {"schemas": [name.schema for name in names], "tables": [name.table for name in names]}
    return tuple(
        TableLock(
            name=TableName(schema=schema, table=table),
            holder=OpenTransaction(pid=pid, gid=gid, database=database, application=application, since=since),
        )
        for schema, table, pid, gid, database, application, since in session.rows(
            _LOCKS, {**wanted, "seconds": _OLDEST_SECONDS}
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReader:
    """The session that reads a replication slot and blocks all other readers.

    Args:
        pid: its server process.
        application: the name that its client gave itself; empty if it gave none.
    """

    pid: int
    application: str

    def __str__(self) -> str:
        return f"server process {self.pid}{f' ({self.application})' if self.application else ''} reads it"

    @property
    def way_out(self) -> str:
        """The statement that ends it."""
        return f"SELECT pg_terminate_backend({self.pid})"


def slot_reader(session: Session, slot: str) -> SlotReader | None:
    """Return the reader of a slot; None if nobody reads it.

    Raises:
        SourceError: the server gives no answer.
    """
    for pid, application in session.rows(_READER, {"slot": slot}):
        return SlotReader(pid=pid, application=application)
    return None


def is_waiting(session: Session) -> bool:
    """Whether any process waits until older transactions have ended.

    Raises:
        SourceError: the server gives no answer.
    """
    return bool(session.rows(_IS_WAITING, {"statement": IS_WAITING})[0][0])


def is_starting(session: Session, slot: str, publication: str) -> bool:
    """Whether any process creates the slot, or waits until tables of the publication may be read.

    Raises:
        SourceError: the server gives no answer.
    """
    return bool(session.rows(_IS_STARTING, {"slot": slot, "publication": publication})[0][0])
