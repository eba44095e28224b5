"""The status of a replication slot at the server: how much log it retains, and whether it is read."""

from __future__ import annotations

from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.source_session import LogReach, LogStatus

_SLOT = """
    SELECT active, wal_status, confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
    FROM pg_replication_slots WHERE slot_name = %s
"""


# Columns of newer servers are read from the row as JSON. What the server writes per second is its average since it
# counts.
_REACH = """
    SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s::pg_lsn)::bigint,
           s.safe_wal_size::bigint,
           (w.wal_bytes / greatest(extract(epoch FROM now() - w.stats_reset), 1))::float8,
           extract(epoch FROM nullif(current_setting('idle_replication_slot_timeout', true), '')::interval)::float8,
           extract(epoch FROM now() - (to_jsonb(s) ->> 'inactive_since')::timestamptz)::float8
    FROM pg_stat_wal AS w LEFT JOIN pg_replication_slots AS s ON s.slot_name = %s
"""
_BY_SIZE, _BY_AGE = "max_slot_wal_keep_size", "idle_replication_slot_timeout"


def read_log_reach(session: Session, slot: str, lsn: int | None) -> LogReach:
    """Return the log after a position, and when the server invalidates its slot if nobody reads it.

    Args:
        session: a session.
        slot: the slot.
        lsn: the position; None before the first.

    Raises:
        SourceError: the server can't be asked.
    """
    place = None if lsn is None else format_lsn(lsn)
    behind, room, rate, kept, idle = session.rows(_REACH, [place, slot])[0]
    behind = None if behind is None else max(int(behind), 0)
    room = None if room is None else max(int(room), 0)
    limits = []
    if room is not None and rate:
        limits.append((room / rate, _BY_SIZE))
    if kept:
        limits.append((max(kept - (idle or 0), 0.0), _BY_AGE))
    lost, setting = min(limits, default=(None, ""))
    return LogReach(
        behind_bytes=behind,
        behind_seconds=0.0 if behind == 0 else None,
        kept_seconds=kept or None,
        room_bytes=room,
        lost_in_seconds=lost,
        setting=setting,
    )


def read_slot_status(session: Session, slot: str) -> LogStatus | None:
    """Return the status of a slot; None if there is none.

    Raises:
        SourceError: the server can't be asked.
    """
    for active, status, confirmed, retained in session.rows(_SLOT, [slot]):
        position = None if confirmed is None else parse_lsn(confirmed)
        return LogStatus(is_active=active, position=position, retained_bytes=retained, state=status or "")
    return None


def read_flushed_end(session: Session) -> int:
    """Return the end of the server's durable log, which a crash does not lose.

    Raises:
        SourceError: the server can't be asked.
    """
    return parse_lsn(session.rows("SELECT pg_current_wal_flush_lsn()::text")[0][0])
