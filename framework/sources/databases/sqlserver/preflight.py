"""Preflight of a SQL Server source: server, rights, capture job, retention and tables, before anything is read.

Each finding has the statement that fixes it. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framework.foundation.errors import SourceError
from framework.sources.databases.findings import PreflightFinding, Severity
from framework.sources.databases.mendings import Mending
from framework.sources.databases.source_session import LogName
from framework.sources.databases.sqlserver.connecting import TRACKING, changes_way, login_user
from framework.sources.databases.sqlserver.log.retention import captured_minutes, tracked_minutes
from framework.sources.databases.sqlserver.log.tracked_tables import read_tracked
from framework.sources.databases.sqlserver.names import bracket, quoted
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.statements import (
    ALLOW_SNAPSHOT,
    KEEP_LONGER,
    START_JOB,
    TRACK_LONGER,
    enable_table,
    enable_tracking,
    instance_name,
)
from framework.sources.databases.sqlserver.tables.catalog import is_in_order, read_clustered, read_tables
from framework.sources.databases.sqlserver.tables.instances import (
    CaptureInstance,
    is_capturing,
    newest_of,
    read_instances,
)
from framework.sources.databases.sqlserver.tables.mendings import mending_sql
from framework.sources.databases.sqlserver.values.types import base_name
from framework.sources.databases.tables import KeyKind, SourceTable, TableName

OLDEST_VERSION = 13  # SQL Server 2016
_AZURE = 5
_LATE_MINUTES = 15
_LEAST_HOURS = 24
_SERVER = (
    "SELECT CONVERT(varchar(30), SERVERPROPERTY('ProductVersion')), CONVERT(int, SERVERPROPERTY('EngineEdition')), "
    "d.snapshot_isolation_state, IS_MEMBER('db_owner'), HAS_PERMS_BY_NAME('cdc', 'SCHEMA', 'SELECT') "
    "FROM sys.databases AS d WHERE d.database_id = DB_ID()"
)
_LATE = "SELECT DATEDIFF(MINUTE, MAX(tran_end_time), SYSDATETIME()) FROM cdc.lsn_time_mapping"
_MAY_SELECT = "SELECT HAS_PERMS_BY_NAME(?, 'OBJECT', 'SELECT')"


def check(session: Session, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
    """Return the findings that hinder the ingestion of tables, each with the statement that fixes it.

    Raises:
        SourceError: the database can't be read.
    """
    return tuple(_findings(session, names, log))


def _findings(session: Session, names: Sequence[TableName], log: LogName) -> Iterator[PreflightFinding]:
    version, edition, snapshots, is_owner, may_read = session.rows(_SERVER)[0]
    is_azure = int(edition) == _AZURE
    if not is_azure and int(str(version).partition(".")[0]) < OLDEST_VERSION:
        yield PreflightFinding.of("SQLSERVER_VERSION_TOO_OLD", Severity.ERROR, version=version)
        return
    if changes_way(session.connection) == TRACKING:
        yield from _tracking(session, snapshots=bool(snapshots))
        logged, found = read_tracked(session), read_tables(session, names)
        for name in names:
            table = found[name]
            if not isinstance(table, SourceError) and int(table.identity) not in logged:
                statement = enable_tracking(name)
                yield PreflightFinding.of("SQLSERVER_TRACKING_MISSING", Severity.ERROR, table=name, statement=statement)
            yield from _table(session, name, table)
        return
    if not is_capturing(session):
        yield PreflightFinding.of("SQLSERVER_CAPTURE_DISABLED", Severity.ERROR, address=session.connection.address)
    elif not may_read:
        role = bracket(login_user(session.connection))
        yield PreflightFinding.of(
            "SQLSERVER_CAPTURE_NOT_READABLE",
            Severity.ERROR,
            role=role,
            statement=f"GRANT SELECT ON SCHEMA::cdc TO {role}",
        )
    else:
        yield from _job(session, has_agent=not is_azure)
    yield from _captured(session, names, log, may_enable=bool(is_owner))


def _tracking(session: Session, *, snapshots: bool) -> Iterator[PreflightFinding]:
    """Yield the findings of change tracking in the database."""
    if session.rows("SELECT CHANGE_TRACKING_CURRENT_VERSION()")[0][0] is None:
        yield PreflightFinding.of("SQLSERVER_TRACKING_DISABLED", Severity.ERROR, address=session.connection.address)
    if not snapshots:
        yield PreflightFinding.of("SQLSERVER_TRACKING_WITHOUT_SNAPSHOT", Severity.ERROR, statement=ALLOW_SNAPSHOT)
    yield from _kept_briefly(tracked_minutes(session), TRACK_LONGER)


def _job(session: Session, *, has_agent: bool) -> Iterator[PreflightFinding]:
    late = session.rows(_LATE)[0][0]
    if late is not None and int(late) >= _LATE_MINUTES:
        # An idle database writes an entry every five minutes with SQL Server Agent, but not on Azure.
        severity = Severity.ERROR if has_agent else Severity.WARNING
        yield PreflightFinding.of("SQLSERVER_CAPTURE_LATE", severity, minutes=late, statement=START_JOB)
    yield from _kept_briefly(captured_minutes(session), KEEP_LONGER)


def _kept_briefly(minutes: int | None, statement: str) -> Iterator[PreflightFinding]:
    """Yield the finding of changes that are kept for less than a day."""
    if minutes is not None and minutes < _LEAST_HOURS * 60:
        yield PreflightFinding.of(
            "SQLSERVER_CAPTURE_RETENTION", Severity.WARNING, hours=f"{minutes / 60:.3g}", statement=statement
        )


def _captured(
    session: Session, names: Sequence[TableName], log: LogName, *, may_enable: bool
) -> Iterator[PreflightFinding]:
    newest, clustered = newest_of(read_instances(session)), read_clustered(session)
    found = read_tables(session, names)
    for name in names:
        table = found[name]
        if not isinstance(table, SourceError):
            number = int(table.identity)
            yield from _instance(session, table, newest.get(number), log, may_enable=may_enable)
            yield from _order(table, clustered.get(number))
        yield from _table(session, name, table)


def _instance(
    session: Session, table: SourceTable, instance: CaptureInstance | None, log: LogName, *, may_enable: bool
) -> Iterator[PreflightFinding]:
    statement = enable_table(table.name, instance_name(log, int(table.identity)))
    if instance is None:
        if not may_enable:
            yield PreflightFinding.of(
                "SQLSERVER_CAPTURE_MISSING", Severity.ERROR, table=table.name, statement=statement
            )
        return
    if instance.allows_switch and _is_partitioned(session, table):
        yield PreflightFinding.of("SQLSERVER_PARTITION_SWITCH", Severity.WARNING, table=table.name)
    present = session.rows(
        "SELECT c.name FROM sys.columns AS c WHERE c.object_id = ? AND c.is_computed = 0 ORDER BY c.column_id",
        [int(table.identity)],
    )
    captured = {name for name, _ in instance.columns}
    lacking = [name for (name,) in present if name not in captured]
    if lacking:
        second = enable_table(table.name, f"{instance_name(log, int(table.identity))}_2")
        yield PreflightFinding.of(
            "SQLSERVER_CAPTURE_COLUMNS",
            Severity.WARNING,
            table=table.name,
            columns=", ".join(lacking),
            statement=second if instance.name == instance_name(log, int(table.identity)) else statement,
        )


def _order(table: SourceTable, clustered: tuple[str, ...] | None) -> Iterator[PreflightFinding]:
    """Yield the finding of a table whose rows are not stored in the order of its key."""
    if not table.key or is_in_order(table.key, clustered or ()):
        return
    columns = ", ".join(bracket(name) for name in table.key)
    statement = f"CREATE UNIQUE CLUSTERED INDEX [sluice_key] ON {quoted(table.name)} ({columns})"
    yield PreflightFinding.of(
        "SQLSERVER_KEY_NOT_CLUSTERED",
        Severity.WARNING,
        table=table.name,
        columns=", ".join(table.key),
        statement=statement if clustered is None else "",
    )


def _is_partitioned(session: Session, table: SourceTable) -> bool:
    query = "SELECT COUNT(*) FROM sys.partitions WHERE object_id = ? AND index_id IN (0, 1)"
    return int(session.rows(query, [int(table.identity)])[0][0]) > 1


def _table(session: Session, name: TableName, table: SourceTable | SourceError) -> Iterator[PreflightFinding]:
    if isinstance(table, SourceError):
        yield PreflightFinding(
            condition=table.condition, severity=Severity.ERROR, what=table.what, remedy=table.remedy, table=name
        )
        return
    if not session.rows(_MAY_SELECT, [quoted(name)])[0][0]:
        role = bracket(login_user(session.connection))
        yield PreflightFinding.of(
            "DATABASE_SELECT_MISSING",
            Severity.ERROR,
            table=name,
            role=role,
            columns="rows",
            statement=f"GRANT SELECT ON {quoted(name)} TO {role}",
        )
    yield from _columns(table)


def _columns(table: SourceTable) -> Iterator[PreflightFinding]:
    if table.key_kind is KeyKind.NONE:
        yield PreflightFinding.of("DATABASE_TABLE_WITHOUT_KEY", Severity.WARNING, table=table.name)
    if table.key_kind is KeyKind.NULLABLE_UNIQUE:
        columns = [name for name in table.key if table.column(name).nullable]
        statement = mending_sql(Mending.FILL_KEY, table.name, columns, _types(table))
        yield PreflightFinding.of(
            "DATABASE_KEY_NULLABLE", Severity.WARNING, table=table.name, columns=", ".join(columns), statement=statement
        )
    if table.generated:
        yield PreflightFinding.of(
            "DATABASE_GENERATED_COLUMNS", Severity.INFORMATION, table=table.name, columns=", ".join(table.generated)
        )
    long = [each.name for each in table.columns if each.type_name in ("datetime2(7)", "datetimeoffset(7)")]
    if long:
        yield PreflightFinding.of(
            "SQLSERVER_FRACTION_TOO_LONG", Severity.WARNING, table=table.name, columns=", ".join(long)
        )


def _types(table: SourceTable) -> Mapping[str, str]:
    return {each.name: each.type_name for each in table.columns if base_name(each.type_name)}
