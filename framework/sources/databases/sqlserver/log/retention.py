"""How long a database keeps changes: the clean-up job of change data capture, or the retention of change tracking."""

from __future__ import annotations

from framework.foundation.errors import SourceError
from framework.sources.databases.source_session import LogReach
from framework.sources.databases.sqlserver.connecting import TRACKING, changes_way
from framework.sources.databases.sqlserver.log.stored_position import StoredPosition, captured_end, order_of, read_end
from framework.sources.databases.sqlserver.session import Session

_MINUTE = 60
_JOBS = "SELECT retention FROM {0} WHERE job_type = N'cleanup'"
_SQL_SERVERS = "msdb.dbo.cdc_jobs"
_AZURES = "cdc.cdc_jobs"
_AGE = "SELECT DATEDIFF(SECOND, MAX(tran_end_time), SYSDATETIME()) FROM cdc.lsn_time_mapping WHERE start_lsn <= ?"
_TRACKING = (
    "SELECT retention_period, retention_period_units, is_auto_cleanup_on FROM sys.change_tracking_databases "
    "WHERE database_id = DB_ID()"
)
_UNIT_MINUTES = {1: 1, 2: 60, 3: 1440}


def captured_minutes(session: Session) -> int | None:
    """Return for how many minutes captured changes are kept; None if the user may not read it."""
    for query in (f"{_JOBS.format(_SQL_SERVERS)} AND database_id = DB_ID()", _JOBS.format(_AZURES)):
        try:
            for (minutes,) in session.rows(query):
                return int(minutes)
        except SourceError:  # the jobs are in another database, which a plain user may not read; Azure has its own
            continue
    return None


def tracked_minutes(session: Session) -> int | None:
    """Return for how many minutes change tracking keeps changes; None for ever.

    Raises:
        SourceError: the database can't be read.
    """
    for period, unit, is_removed in session.rows(_TRACKING):
        return int(period) * _UNIT_MINUTES[int(unit)] if is_removed else None
    return None


def read_log_reach(session: Session, stored: StoredPosition | None) -> LogReach:
    """Return how long changes after a position are kept; the server does not tell how many bytes they are.

    The clean-up job removes entries by the time of their commits, and moves the begin of the instances, so that the
    position is lost even if no change was after it.

    Raises:
        SourceError: the database can't be read.
    """
    way = changes_way(session.connection)
    minutes = tracked_minutes(session) if way == TRACKING else captured_minutes(session)
    setting = "" if minutes is None else "CHANGE_RETENTION" if way == TRACKING else "sp_cdc_change_job @retention"
    kept = None if minutes is None else float(minutes * _MINUTE)
    if stored is None or stored.way != way:
        return LogReach(kept_seconds=kept, setting=setting)
    if way == TRACKING:
        is_current = order_of(way, read_end(session)) <= stored.order
        return LogReach(
            behind_bytes=0 if is_current else None,
            behind_seconds=0.0 if is_current else None,
            kept_seconds=kept,
            lost_in_seconds=kept if is_current else None,
            setting=setting,
        )
    end = captured_end(session)
    is_current = end is None or end <= stored.lsn
    seconds = session.rows(_AGE, [stored.lsn.value])[0][0]
    age = None if seconds is None else max(float(seconds), 0.0)
    return LogReach(
        behind_bytes=0 if is_current else None,
        behind_seconds=0.0 if is_current else age,
        kept_seconds=kept,
        lost_in_seconds=None if kept is None else max(kept - (age or 0.0), 0.0),
        setting=setting,
    )
