"""The status of a replication slot at the server: how much log it retains, and whether it is read."""

from __future__ import annotations

from framework.sources.databases.postgres.lsn import parse_lsn
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.source_session import LogStatus

_SLOT = """
    SELECT active, wal_status, confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
    FROM pg_replication_slots WHERE slot_name = %s
"""


def read_slot_status(session: Session, slot: str) -> LogStatus | None:
    """Return the status of a slot; None if there is none.

    Raises:
        SourceError: the server can't be asked.
    """
    for active, status, confirmed, retained in session.rows(_SLOT, [slot]):
        position = None if confirmed is None else parse_lsn(confirmed)
        return LogStatus(is_active=active, position=position, retained_bytes=retained, state=status or "")
    return None


def read_log_end(session: Session) -> int:
    """Return the end of the server's log.

    Raises:
        SourceError: the server can't be asked.
    """
    return parse_lsn(session.rows("SELECT pg_current_wal_lsn()::text")[0][0])


def read_flushed_end(session: Session) -> int:
    """Return the end of the server's durable log, which a crash does not lose.

    Raises:
        SourceError: the server can't be asked.
    """
    return parse_lsn(session.rows("SELECT pg_current_wal_flush_lsn()::text")[0][0])
