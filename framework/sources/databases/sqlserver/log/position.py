"""The position of a gateway: capture instances are made for its tables, before any chunk is read.

A position is an LSN that the capture job has passed. It may be far behind the log if the job is late: the changes after
it are read again and beat the older rows of chunks, so it is safe. What is before it was committed long ago, and chunks
read with locks, so they see it.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import RemoteError, SourceError
from framework.sources.databases.position import Position
from framework.sources.databases.source_session import LogName
from framework.sources.databases.sqlserver.connecting import TRACKING, changes_way
from framework.sources.databases.sqlserver.log.stored_position import captured_end, position_at, read_end
from framework.sources.databases.sqlserver.log.tracked_tables import read_tracked
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.statements import (
    disable_table,
    enable_table,
    enable_tracking,
    instance_name,
    own_prefix,
)
from framework.sources.databases.sqlserver.tables.instances import (
    CaptureInstance,
    instances_of,
    is_capturing,
    newest_of,
    read_instances,
)
from framework.sources.databases.sqlserver.tables.object_ids import read_object_ids
from framework.sources.databases.tables import TableName

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.2


def ensure_position(
    session: Session, log: LogName, names: Sequence[TableName], *, clock: Clock | None = None
) -> Position:
    """Make the missing capture instances of tables, and return a position from which all of them have each change.

    Raises:
        SluiceError: SQLSERVER_CAPTURE_DISABLED, SQLSERVER_CAPTURE_MISSING, SQLSERVER_CAPTURE_NOT_READY,
            DATABASE_TABLE_MISSING, or the database can't be read.
    """
    if changes_way(session.connection) == TRACKING:
        return _tracked_position(session, names)
    ids = read_object_ids(session, names)
    for name, number in ids.items():
        if not instances_of(read_instances(session), number):
            _capture(session, log, name, number)
    begins = [
        each.begin for each in _begun(session, list(ids.items()), clock or SystemClock()) if each.begin is not None
    ]
    end = captured_end(session)
    # The begin of a new instance is the end of the log, which may be after the end that the capture job has reached.
    found = max(begins) if end is None and begins else None if end is None else max([end, *begins])
    return position_at("capture", str(found) if found is not None else read_end(session))


def drop_position(session: Session, log: LogName) -> None:
    """Drop the capture instances that `ensure_position` made; those of others stay.

    Raises:
        SourceError: the database does not allow it.
    """
    if changes_way(session.connection) == TRACKING:
        return
    for schema, table, instance in own_instances(session, log):
        session.execute(disable_table(TableName(schema=schema, table=table), instance))


def own_instances(session: Session, log: LogName) -> list[tuple[str, str, str]]:
    """Return schema, table and name of the capture instances that a gateway made.

    Raises:
        SourceError: the database can't be read.
    """
    if not is_capturing(session):
        return []
    rows = session.rows(
        "SELECT s.name, t.name, ct.capture_instance FROM cdc.change_tables AS ct "
        "JOIN sys.tables AS t ON t.object_id = ct.source_object_id JOIN sys.schemas AS s ON s.schema_id = t.schema_id"
    )
    return [(schema, table, name) for schema, table, name in rows if name.startswith(own_prefix(log))]


def _capture(session: Session, log: LogName, name: TableName, number: int) -> None:
    statement = enable_table(name, instance_name(log, number))
    if not is_capturing(session):
        raise SourceError("SQLSERVER_CAPTURE_DISABLED", address=session.connection.address)
    try:
        session.execute(statement)
    except SourceError as error:
        if instances_of(read_instances(session), number):  # another process has made it meanwhile
            return
        if error.condition != "DATABASE_PERMISSION":
            raise
        raise SourceError("SQLSERVER_CAPTURE_MISSING", table=name, statement=statement) from None


def _begun(session: Session, ids: Sequence[tuple[TableName, int]], clock: Clock) -> list[CaptureInstance]:
    """Wait until a capture instance of each table has its begin."""
    deadline = clock.monotonic() + _WAIT_SECONDS
    while True:
        newest = newest_of(read_instances(session))
        waiting = [name for name, number in ids if number not in newest or newest[number].begin is None]
        if not waiting:
            return [newest[number] for _, number in ids]
        if clock.monotonic() > deadline:
            raise SourceError("SQLSERVER_CAPTURE_NOT_READY", table=waiting[0], seconds=round(_WAIT_SECONDS))
        clock.sleep(_POLL_SECONDS)


def _tracked_position(session: Session, names: Sequence[TableName]) -> Position:
    tracked = read_tracked(session)
    for name, number in read_object_ids(session, names).items():
        if number not in tracked:
            raise RemoteError(
                "SQLSERVER_TRACKING_MISSING",
                what=f"Change tracking is not enabled for the table {name}.",
                remedy=f"Run as its owner: `{enable_tracking(name)}`.",
            )
    return position_at(TRACKING, read_end(session))
