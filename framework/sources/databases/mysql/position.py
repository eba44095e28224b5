"""Positions of the log, read so that everything below them is visible to later reads; nothing is kept at the server.

The log is written before a commit is visible, so the end of the log alone is no position: a transaction below it may
still be missing from a chunk that is read now. How each server gives a safe one:

- MariaDB: a transaction with a consistent snapshot knows the place in the log at which it was taken.
- MySQL with GTIDs: the end of the log is read first. A transaction below it has its GTID by then; it is *owned* until
  its engine has committed it. So the place is safe when no GTID that was owned after the read is owned any more.
- MySQL without GTIDs: a transaction holds a lock on COMMIT from before it is logged until it is visible. The place is
  safe when no holder of that lock after the read holds it any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.faults import account_sql
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import StoredPosition

_WAIT_SECONDS, _POLL_SECONDS = 60.0, 0.01
_OWNED = re.compile(r"([0-9a-fA-F-]{36}(?::[a-z_]\w*)?)((?::\d+#\d+(?:-\d+)*)+|#[^,]*)")
_COMMITTING = """
SELECT OWNER_THREAD_ID, OWNER_EVENT_ID FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'COMMIT'
"""
_SHOWS_LOCKS = """
SELECT COUNT(*) FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl' AND ENABLED = 'YES'
"""
_SHOW_LOCKS = (
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
)


def read_identity(session: Session) -> str:
    """Return what distinguishes a server from others: its UUID, or what MariaDB has in its place.

    Raises:
        SourceError: the server gives no answer.
    """
    found = session.variables(("server_uuid", "server_uid", "server_id"))
    own = found.get("server_uuid") or f"{found.get('server_uid', '')}/{found.get('server_id', '')}"
    return own.strip("/")


def read_log_end(session: Session) -> LogPlace:
    """Return the end of the log.

    Raises:
        SourceError: MYSQL_LOG_OFF, or the server gives no answer.
    """
    found = session.rows(session.server.log_status)
    if not found:
        raise SourceError(
            "MYSQL_LOG_OFF", setting="log_bin", found="OFF", value="binlog", statement="SHOW VARIABLES LIKE 'log_bin'"
        )
    return LogPlace(str(found[0][0]), int(found[0][1]))


def safe_position(session: Session, *, clock: Clock | None = None) -> StoredPosition:
    """Return a position below which every change is visible to all later reads.

    Args:
        session: any session of the server.
        clock: for waiting.

    Raises:
        SourceError: MYSQL_COMMITS_PENDING, MYSQL_NO_ORDER_OF_COMMITS, or the server gives no answer.
    """
    source = read_identity(session)
    if session.server.is_mariadb:
        place, gtids = _consistent_snapshot(session)
        return StoredPosition(place=place, source=source, gtids=gtids)
    place = read_log_end(session)
    has_gtids = session.variables(("gtid_mode",)).get("gtid_mode") == "ON"
    committing = _owned_gtids if has_gtids else _holders_of_commit
    _await_none(session, committing, clock or SystemClock())
    gtids = str(session.rows("SELECT @@GLOBAL.gtid_executed")[0][0]) if has_gtids else ""
    return StoredPosition(place=place, source=source, gtids=re.sub(r"\s", "", gtids))


def _consistent_snapshot(session: Session) -> tuple[LogPlace, str]:
    """Return the place of a snapshot of MariaDB, and its GTIDs there."""
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        found = dict(session.rows("SHOW STATUS LIKE 'binlog_snapshot_%'"))
    finally:
        session.execute("ROLLBACK")
    if not found.get("Binlog_snapshot_file"):
        return read_log_end(session), ""  # raises that there is no log
    place = LogPlace(str(found["Binlog_snapshot_file"]), int(found["Binlog_snapshot_position"]))
    return place, gtids_at(session, place)


def read_state(session: Session) -> str:
    """Return the last transaction of each domain and server in the log of MariaDB; empty for MySQL.

    Raises:
        SourceError: the server gives no answer.
    """
    return session.variables(("gtid_binlog_state",)).get("gtid_binlog_state", "")


def gtids_at(session: Session, place: LogPlace) -> str:
    """Return the last GTIDs of MariaDB before a place of its log; empty if the log does not have the place.

    Raises:
        SourceError: the server gives no answer.
    """
    return str(session.rows("SELECT BINLOG_GTID_POS(%s, %s)", [place.file, place.offset])[0][0] or "")


def _await_none(session: Session, committing: Callable[[Session], set[str]], clock: Clock) -> None:
    """Wait until the commits that are in progress now have ended."""
    pending = committing(session)
    deadline = clock.monotonic() + _WAIT_SECONDS
    while pending:
        if clock.monotonic() > deadline:
            raise SourceError("MYSQL_COMMITS_PENDING", seconds=int(_WAIT_SECONDS), which=", ".join(sorted(pending)))
        clock.sleep(_POLL_SECONDS)
        pending &= committing(session)


def _owned_gtids(session: Session) -> set[str]:
    """Return the GTIDs of transactions that are being committed, as `uuid:number`."""
    text = str(session.rows("SELECT @@GLOBAL.gtid_owned")[0][0] or "")
    found = set()
    for source, numbers in _OWNED.findall(re.sub(r"\s", "", text)):
        found |= {f"{source}:{number}" for number in re.findall(r":(\d+)#", numbers)}
    return found


def _holders_of_commit(session: Session) -> set[str]:
    """Return who is committing, as `thread/event`; our own reads hold no lock on COMMIT."""
    try:
        is_shown = session.rows(_SHOWS_LOCKS) == [(1,)]
        found = session.rows(_COMMITTING)
    except SourceError as error:
        user = account_sql(str(session.rows("SELECT CURRENT_USER()")[0][0]))
        statement = f"GRANT SELECT ON performance_schema.* TO {user}"
        raise SourceError("MYSQL_NO_ORDER_OF_COMMITS", cause=error.what.rstrip("."), statement=statement) from error
    if not is_shown:
        raise SourceError(
            "MYSQL_NO_ORDER_OF_COMMITS",
            cause="performance_schema is off, or does not show metadata locks",
            statement=_SHOW_LOCKS,
        )
    return {f"{thread}/{event}" for thread, event in found}
