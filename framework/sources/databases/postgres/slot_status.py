"""What the server says of a replication slot: how much log it retains, and whether it is read."""

from __future__ import annotations

from dataclasses import dataclass

from framework.sources.databases.lsn import parse_lsn
from framework.sources.databases.postgres.session import Session

_SLOT = """
    SELECT active, wal_status, confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
    FROM pg_replication_slots WHERE slot_name = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatus:
    """A replication slot.

    Args:
        is_active: whether it is read now.
        wal_status: whether the log that it needs is there, in PostgreSQL's words: reserved, extended, unreserved, lost.
        position: the position up to which its changes are durable here; None if it is unknown.
        retained_bytes: the log that the server keeps for it; None if the log is lost.
    """

    is_active: bool
    wal_status: str | None
    position: int | None
    retained_bytes: int | None


def read_slot_status(session: Session, slot: str) -> SlotStatus | None:
    """Return the status of a slot; None if there is none.

    Raises:
        SourceError: the server can't be asked.
    """
    for active, status, confirmed, retained in session.rows(_SLOT, [slot]):
        position = None if confirmed is None else parse_lsn(confirmed)
        return SlotStatus(is_active=active, wal_status=status, position=position, retained_bytes=retained)
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
