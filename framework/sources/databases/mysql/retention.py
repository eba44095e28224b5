"""How long a server keeps its log, and how much of it is after a position."""

from __future__ import annotations

from collections.abc import Mapping

from framework.sources.databases.mysql.position import read_identity
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.source_session import LogReach

_DAY_SECONDS = 86400
_MICRO = 1_000_000
_SECONDS, _DAYS, _PURGES = "binlog_expire_logs_seconds", "expire_logs_days", "binlog_expire_logs_auto_purge"
# MariaDB 11.4, which has the other names of Percona's setting, too.
_SIZES = ("max_binlog_total_size", "binlog_space_limit")
RETENTION = (_SECONDS, _DAYS, _PURGES, *_SIZES)


def retention_seconds(variables: Mapping[str, str]) -> int:
    """Return how long a server keeps its log; 0 for ever."""
    if variables.get(_PURGES, "ON") == "OFF":
        return 0
    seconds = float(variables.get(_SECONDS) or 0)
    return int(seconds or float(variables.get(_DAYS) or 0) * _DAY_SECONDS)


def read_log_reach(session: Session, stored: StoredPosition | None) -> LogReach:
    """Return the log after a position, and when the server removes it.

    A file of the log is removed when nothing was written to it for the time that the server keeps it. So the changes
    after a position are there for this time since the last change before it.

    Raises:
        SourceError: the server gives no answer.
    """
    variables = session.variables(RETENTION)
    kept = retention_seconds(variables)
    limit, size_setting = next(
        ((int(variables[each]), each) for each in _SIZES if int(variables.get(each) or 0)), (0, "")
    )
    age_setting = _SECONDS if float(variables.get(_SECONDS) or 0) else _DAYS
    behind, held = _sizes(session, stored)
    age = _age(session, stored, behind)
    room = None if not limit else limit if held is None else max(limit - held, 0)
    limits = []
    if kept:
        limits.append((max(kept - (age or 0.0), 0.0), age_setting))
    if room is not None and behind and age:
        limits.append((room * age / behind, size_setting))
    lost, setting = min(limits, default=(None, size_setting))
    return LogReach(
        behind_bytes=behind,
        behind_seconds=age,
        kept_seconds=float(kept) or None,
        room_bytes=room,
        lost_in_seconds=lost,
        setting=setting,
    )


def _sizes(session: Session, stored: StoredPosition | None) -> tuple[int | None, int | None]:
    """Return the bytes after a position, and those from the begin of its file on; None if the server lacks the file."""
    if stored is None or stored.source != read_identity(session):
        return None, None
    files = {str(row[0]): int(row[1]) for row in session.rows("SHOW BINARY LOGS")}
    if stored.place.file not in files:
        return None, None
    names = [*files]
    held = sum(files[name] for name in names[names.index(stored.place.file) :])
    return max(held - stored.place.offset, 0), held


def _age(session: Session, stored: StoredPosition | None, behind: int | None) -> float | None:
    """Return the time since the last change before a position, by the clock of the server; 0 at the end of the log."""
    if behind == 0:
        return 0.0
    last = 0.0
    if stored is not None:
        last = stored.begun if stored.last is None else stored.last.commit_microseconds / _MICRO
    if not last:
        return None
    return max(float(session.rows("SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0]) - last, 0.0)
