"""Conditions that only SQL Server raises: capture instances, change tracking, LSNs."""

from __future__ import annotations

from framework.foundation.conditions.databases import READ_AGAIN, SNAPSHOT_AGAIN
from framework.foundation.conditions.entry import Condition

_ENABLE = (
    "Run as a member of db_owner: `EXEC sys.sp_cdc_enable_db` (on Amazon RDS: `EXEC msdb.dbo.rds_cdc_enable_db "
    "'<database>'`). Without SQL Server Agent, write `?changes=tracking` to the connection and use change tracking."
)

CONDITIONS: dict[str, Condition] = {
    "SQLSERVER_PARAMETER_INVALID": Condition(
        "The parameter `{parameter}` of the connection `{connection}` can't be `{value}`.",
        "Correct the URL; known parameters: {known}.",
    ),
    "SQLSERVER_DRIVER_NOT_LOADED": Condition(
        "The driver of SQL Server can't be loaded: this machine lacks the system library {library}.",
        "On Debian or Ubuntu run `{statement}`; elsewhere install the package that has it.",
    ),
    "SQLSERVER_LSN_TOO_LARGE": Condition(
        "The log sequence number {lsn} is beyond the numbers that positions can have.",
        "Virtual log files may have at most 16 GB: shrink the log, and let it grow in steps of at most 64 GB.",
    ),
    "SQLSERVER_CAPTURE_DISABLED": Condition("Change data capture is not enabled in {address}.", _ENABLE),
    "SQLSERVER_CAPTURE_EMPTY": Condition(
        "The capture job of {address} has read nothing yet.",
        "Check that SQL Server Agent runs, and start the job: `EXEC sys.sp_cdc_start_job @job_type = N'capture'`.",
    ),
    "SQLSERVER_CAPTURE_MISSING": Condition(
        "The table {table} has no capture instance, so its changes are not recorded.",
        "Run as a member of db_owner: `{statement}`.",
    ),
    "SQLSERVER_CAPTURE_NOT_READY": Condition(
        "The capture instance of {table} has no begin after {seconds} seconds.",
        "Check that the capture job runs: `EXEC sys.sp_cdc_help_jobs`. Then start again.",
    ),
    "SQLSERVER_CAPTURE_LATE": Condition(
        "The capture job has read nothing for {minutes} minutes: changes since then are not seen.",
        "Check that SQL Server Agent runs, and start the job: `{statement}`.",
    ),
    "SQLSERVER_CAPTURE_RETENTION": Condition(
        "Changes are removed after {hours} hours: after a longer pause, all tables must be read again.",
        "Run as a member of db_owner: `{statement}`.",
    ),
    "SQLSERVER_CAPTURE_COLUMNS": Condition(
        "The capture instance of {table} lacks the columns {columns}: they are left out.",
        "Run as a member of db_owner: `{statement}`. Run an update, and read the table again: `sluice ingest resync "
        "{table}`. Then the older instance may be dropped.",
    ),
    "SQLSERVER_PARTITION_SWITCH": Condition(
        "Partitions of {table} may be switched in and out: such rows are in no change table.",
        "Read the table again after each switch, or make its capture instance again with "
        "`@allow_partition_switch = 0`.",
    ),
    "SQLSERVER_CAPTURE_NOT_READABLE": Condition(
        "The user {role} may not read the change tables.", "Run as a member of db_owner: `{statement}`."
    ),
    "SQLSERVER_FRACTION_TOO_LONG": Condition(
        "The columns {columns} of {table} may have a seventh digit of the fraction, which Spark's timestamps lack: "
        "such a value is an error.",
        "Name them in `text_columns` of the table's `table_configuration`, or in the option `textColumns` of a reader "
        "of your own. Or make them datetime2(6) or datetimeoffset(6).",
    ),
    "SQLSERVER_VERSION_TOO_OLD": Condition(
        "The server is SQL Server {version}, which is not supported.", "Upgrade it to SQL Server 2016 or newer."
    ),
    "SQLSERVER_CAPTURE_GAP": Condition(
        "Changes of {table} after the position {position} are in no capture instance: {reason}.",
        READ_AGAIN,
    ),
    "SQLSERVER_KEY_MOVED": Condition(
        "A transaction moved rows of {table} to other keys, and a row was deleted whose key and values are those of a "
        "row that it had moved there: the change tables do not show which of the two was deleted.",
        READ_AGAIN + " A unique clustered index of the key keeps it from happening again.",
    ),
    "SQLSERVER_KEY_NOT_CLUSTERED": Condition(
        "The key {columns} of {table} has no unique clustered index: if one transaction moves a row to a key and away "
        "from it, the log may not show which row is left, and the table must be read again.",
        "Give its key, or a part of it, a unique clustered index.",
    ),
    "SQLSERVER_CAPTURE_REMOVED": Condition(
        "The clean-up job removed changes after the position {position} each time while they were read.",
        "Let the database keep its changes for longer, and run the update again.",
    ),
    "SQLSERVER_TRACKING_DISABLED": Condition(
        "Change tracking is not enabled in {address}.",
        "Run as a member of db_owner: `ALTER DATABASE CURRENT SET CHANGE_TRACKING = ON (CHANGE_RETENTION = 7 DAYS, "
        "AUTO_CLEANUP = ON)`.",
    ),
    "SQLSERVER_TRACKING_MISSING": Condition(
        "Change tracking is not enabled for the table {table}.", "Run as its owner: `{statement}`."
    ),
    "SQLSERVER_TRACKING_WITHOUT_SNAPSHOT": Condition(
        "The database does not allow snapshot isolation, without which change tracking can't be read exactly.",
        "Run as a member of db_owner: `{statement}`.",
    ),
    "SQLSERVER_TRACKING_HISTORY": Condition(
        "The copy of {table} keeps every state of a row, but change tracking only has the last one.",
        "Use change data capture for it, or SCD type 1.",
    ),
    "DATABASE_POSITION_LOST.SQLSERVER_WAY": Condition(
        "Changes were read by {before} up to {position} ({reader}), but the connection says {now}.",
        "Write the parameter changes of the connection's URL as before: nothing is lost. Or: " + SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.SQLSERVER_DISABLED": Condition(
        "Change data capture was disabled, or its last capture instance was dropped, after the position {position}, up "
        "to which changes were read ({reader}).",
        "Enable it: `EXEC sys.sp_cdc_enable_db`. " + SNAPSHOT_AGAIN,
    ),
}
