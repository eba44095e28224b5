"""Statements that set up change data capture and change tracking, as a gateway runs them or a user does."""

from __future__ import annotations

from framework.sources.databases.source_session import LogName
from framework.sources.databases.sqlserver.names import literal, quoted
from framework.sources.databases.tables import TableName

_LONGEST_NAME = 100
_OWN = "sluice_"

ENABLE_DATABASE = "EXEC sys.sp_cdc_enable_db"
START_JOB = "EXEC sys.sp_cdc_start_job @job_type = N'capture'"
KEEP_LONGER = "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080"
TRACK_LONGER = "ALTER DATABASE CURRENT SET CHANGE_TRACKING (CHANGE_RETENTION = 7 DAYS)"
TRACK_DATABASE = "ALTER DATABASE CURRENT SET CHANGE_TRACKING = ON (CHANGE_RETENTION = 7 DAYS, AUTO_CLEANUP = ON)"
ALLOW_SNAPSHOT = "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON"


def own_prefix(log: LogName) -> str:
    """Return how the names of the capture instances of a gateway begin."""
    return f"{_OWN}{log.position}"[: _LONGEST_NAME - 12] + "_"


def instance_name(log: LogName, source_id: int) -> str:
    """Return the name of a gateway's capture instance of a table."""
    return f"{own_prefix(log)}{source_id}"


def enable_table(name: TableName, instance: str) -> str:
    """Return the statement that makes a capture instance."""
    return (
        f"EXEC sys.sp_cdc_enable_table @source_schema = {literal(name.schema)}, @source_name = {literal(name.table)}, "
        f"@role_name = NULL, @capture_instance = {literal(instance)}, @supports_net_changes = 0, "
        "@allow_partition_switch = 0"
    )


def disable_table(name: TableName, instance: str) -> str:
    """Return the statement that drops a capture instance."""
    return (
        f"EXEC sys.sp_cdc_disable_table @source_schema = {literal(name.schema)}, @source_name = {literal(name.table)}, "
        f"@capture_instance = {literal(instance)}"
    )


def enable_tracking(name: TableName) -> str:
    """Return the statement that enables change tracking of a table."""
    return f"ALTER TABLE {quoted(name)} ENABLE CHANGE_TRACKING WITH (TRACK_COLUMNS_UPDATED = OFF)"
