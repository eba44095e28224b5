"""Transactions for which the start of a snapshot waits: of sessions, and prepared ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.sources.databases.postgres.chunk_sql import quote_literal
from framework.sources.databases.tables import quote_identifier

if TYPE_CHECKING:
    from framework.sources.databases.postgres.session import Session

_OLDEST_SECONDS = 1
"""A younger one may have begun after the wait."""
# Only a role that may read all statistics sees when the transactions of others began; the application is always seen.
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
# A start marks the publication until the transactions have ended, and a slot has no position while it is made.
_IS_STARTING = """
SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s
               AND obj_description(oid, 'pg_publication') LIKE '%%(unsettled)')
    OR EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %(slot)s AND confirmed_flush_lsn IS NULL)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has not ended.

    Args:
        pid: the server process of its session; None for a prepared one.
        gid: the name of a prepared one; None for that of a session.
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
        """The statement that ends it, which loses what it did."""
        return f"SELECT pg_terminate_backend({self.pid})" if self.gid is None else (
            f"ROLLBACK PREPARED {quote_literal(self.gid)}, or COMMIT PREPARED, in its database"
        )  # fmt: skip


def open_transactions(session: Session, slot: str) -> tuple[OpenTransaction, ...]:
    """Return the transactions that have been open for a second, the oldest first, without that of the slot's reader.

    Raises:
        SourceError: the server gives no answer.
    """
    rows = session.rows(_OPEN, {"slot": slot, "seconds": _OLDEST_SECONDS})
    return tuple(
        OpenTransaction(pid=pid, gid=gid, database=database, application=application, since=since)
        for pid, gid, database, application, since in rows
    )


def is_starting(session: Session, slot: str, publication: str) -> bool:
    """Whether some process makes the slot, or waits until tables of the publication may be read.

    Raises:
        SourceError: the server gives no answer.
    """
    return bool(session.rows(_IS_STARTING, {"slot": slot, "publication": publication})[0][0])
