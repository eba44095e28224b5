"""Conditions that only PostgreSQL raises: slots, publications, replica identities, and what its log can't say."""

from __future__ import annotations

from framework.foundation.conditions.databases import READ_AGAIN
from framework.foundation.conditions.entry import Condition

_SNAPSHOT_AGAIN = (
    "Changes are missing, so all tables must be read again: `sluice ingest resync --all --new-slot`. Without "
    "`ingest_database`, drop the slot and the publication, and reset each flow of this source: "
    "`sluice run --reset-checkpoint FLOW`."
)

_SLOT_OF_ANOTHER = (
    "It may hold the changes of another database's copy, which would be lost with it: give this ingestion another "
    "`name`, or the source another `slot`. Only if nothing reads it any more, drop it: "
    "SELECT pg_drop_replication_slot('{slot}')."
)

CONDITIONS: dict[str, Condition] = {
    "DATABASE_PARAMETER_INVALID": Condition(
        "The driver rejects the connection `{connection}`: {cause}.",
        "Correct its parameters; they have the names and values of libpq's connection strings.",
    ),
    "DATABASE_REPLICATION_ROLE": Condition(
        "The role {role} may not use logical replication.",
        "Run as a superuser: `{statement}`. On Amazon RDS: `GRANT rds_replication TO {role}`.",
    ),
    "DATABASE_TEXT_NOT_UTF8": Condition(
        "A text of {table} in the log is not UTF-8: {cause}.",
        "Correct the value in the source: a database with the encoding SQL_ASCII does not check it.",
    ),
    "DATABASE_VERSION_TOO_OLD": Condition(
        "The server is PostgreSQL {version}, which is not supported.",
        "Upgrade it to PostgreSQL {oldest} or newer: older ones cannot read a range of a table without a key.",
    ),
    "DATABASE_STANDBY": Condition(
        "The server is a standby: it can neither have a publication nor hold the log safely.",
        "Connect to the primary; with several hosts in the URI, add target_session_attrs=read-write.",
    ),
    "DATABASE_ENCODING_UNKNOWN": Condition(
        "The database has the encoding SQL_ASCII, so that the encoding of its texts is unknown.",
        "Texts must be UTF-8; another one fails when it is read. Convert the database to UTF8.",
    ),
    "DATABASE_WAL_LEVEL": Condition(
        "The setting wal_level is {level}, so that the log does not contain the changes of rows.",
        "Run as a superuser and restart the server: `{statement}`. On Amazon RDS set rds.logical_replication = 1.",
    ),
    "DATABASE_SLOTS_EXHAUSTED": Condition(
        "All {most} replication slots are in use.",
        "Drop a slot that is not needed (SELECT * FROM pg_replication_slots), or run as a superuser and restart the "
        "server: `{statement}`.",
    ),
    "DATABASE_SENDERS_EXHAUSTED": Condition(
        "All {most} WAL senders are in use.", "Run as a superuser and restart the server: `{statement}`."
    ),
    "DATABASE_SLOT_LOG_LIMITED": Condition(
        "The server removes the log that a slot needs beyond {setting} = {limit}: after a longer pause the changes "
        "have a gap, and the tables must be read again.",
        "Keep pauses shorter, or run as a superuser, with space for the log: `{statement}`.",
    ),
    "DATABASE_SLOT_LOST": Condition(
        "The server has removed the log that the slot {slot} needs.",
        "Drop the slot and read the tables again: `{statement}`.",
    ),
    "DATABASE_SLOT_FOREIGN": Condition(
        "The slot {slot} belongs to another use: plugin {plugin}, database {database}.",
        _SLOT_OF_ANOTHER,
    ),
    "DATABASE_PUBLICATION_MISSING": Condition(
        "The publication {publication} does not exist, and the role may not create it.",
        "Run as the owner of the tables: `{statement}`.",
    ),
    "DATABASE_PUBLICATION_WITHOUT_TABLE": Condition(
        "The publication {publication} does not contain the table {table}, so that its changes are not sent.",
        "Run as the owner of the table: `{statement}`.",
    ),
    "DATABASE_PUBLICATION_INCOMPLETE": Condition(
        "The publication {publication} does not send: {missing}.", "Run as its owner: `{statement}`."
    ),
    "DATABASE_PUBLICATION_FILTERED": Condition(
        "The publication {publication} does not send the rows and columns of {table} as they are: {reason}.",
        "Run as its owner: `{statement}`. If the table is copied already, read it again: "
        "`sluice ingest resync {table}`.",
    ),
    "DATABASE_PARTITION_ROOT": Condition(
        "The publication {publication} sends the changes of the partitioned table {table} under the names of its "
        "partitions.",
        "Run as its owner: `{statement}`.",
    ),
    "DATABASE_SCHEMA_USAGE": Condition(
        "The role {role} has no access to the schema of {table}.", "Run as its owner: `{statement}`."
    ),
    "DATABASE_ROWS_HIDDEN": Condition(
        "Row-level security of {table} may hide rows from the role {role}, and a snapshot would lack them.",
        "Run as a superuser: `{statement}`.",
    ),
    "DATABASE_REPLICA_IDENTITY": Condition(
        "{table} has no replica identity: while it is published, the database refuses every UPDATE and DELETE of it.",
        "Run as its owner: `{statement}`.",
    ),
    "DATABASE_KEY_NOT_LOGGED": Condition(
        "The replica identity of {table} does not contain its key ({columns}), so that deletes can't be applied.",
        "Run as its owner: `{statement}`. If the table has a copy, and rows were changed meanwhile, read it again: "
        "`sluice ingest resync {table}`.",
    ),
    "DATABASE_TABLE_UNLOGGED": Condition(
        "{table} is unlogged: its changes are not in the log.", "Run as its owner: `{statement}`."
    ),
    "DATABASE_FOREIGN_PARTITION": Condition(
        "The partitions {partitions} of {table} are foreign tables: their changes are not in the log.",
        "Detach them, and read them from their own server: `{statement}`.",
    ),
    "DATABASE_TOAST_READ_AGAIN": Condition(
        "The log leaves out large values of {columns} of {table} that an update does not change: such rows are read "
        "again by their key.",
        "If that is too slow, run as its owner, at the price of a larger log: `{statement}`.",
    ),
    "DATABASE_PARTITION_TRUNCATED": Condition(
        "A partition of the table {table} was truncated (oid {oid}) while its publication was without "
        "publish_via_partition_root.",
        READ_AGAIN,
    ),
    "DATABASE_CHANGE_WITHOUT_KEY": Condition(
        "A change of the table {table} does not say which row it is of: it has no value of the key ({columns}). The "
        "replica identity was another one at that time, or the key had NULL.",
        f"Compare the replica identities of the table and of its partitions: `sluice ingest preflight`. {READ_AGAIN}",
    ),
    "DATABASE_PARTITION_GONE": Condition(
        "Rows of the table {table} were in its partition {partition}, which is detached or dropped by now. Which rows "
        "these were is not in the log.",
        READ_AGAIN,
    ),
    "DATABASE_LOG_NOT_READABLE": Condition(
        "The server refused to start replication: {cause}",
        "Grant the role REPLICATION (ALTER ROLE … REPLICATION), set wal_level = logical and raise max_wal_senders.",
    ),
    "DATABASE_SLOT_IN_USE": Condition(
        "The replication slot {slot} is in use by the server process {pid}.",
        "Stop the other reader of this slot, or end its server process: SELECT pg_terminate_backend({pid}).",
    ),
    "DATABASE_SLOT_OF_OTHER_STORAGE": Condition(
        "The replication slot {slot} is read by another storage, {other}, which would miss the changes that are read "
        "here.",
        "Use that storage. Or give the ingestion another `name` in the code that uses this one, and another `slot` if "
        "it has that option. Or, if the other storage is not used any more, run at the source: {statement}.",
    ),
    "DATABASE_SLOT_NOT_OURS": Condition(
        "The replication slot {slot} cannot be used: its plugin is {plugin} and its database is {database}.",
        _SLOT_OF_ANOTHER,
    ),
    "DATABASE_PUBLICATION_NOT_OURS": Condition(
        "The publication {publication} was not made by Sluice for the replication slot {slot}.",
        "If it was made for this slot alone, run as its owner: `{statement}`. Otherwise use another publication name, "
        "or drop it if nothing needs it: DROP PUBLICATION {publication}.",
    ),
    "DATABASE_POSITION_BUSY": Condition(
        "Another process has made or dropped replication slots of this database for {seconds} seconds ({slot}).",
        "Wait for it, or end the holder of the advisory lock: SELECT pid FROM pg_locks WHERE locktype = 'advisory'.",
    ),
    "DATABASE_TRANSACTIONS_OPEN": Condition(
        "Transactions that were open when the replication slot {slot} was made did not end within {seconds} seconds. "
        "Server processes with open transactions: {pids}.",
        "End them (SELECT pg_terminate_backend(pid); COMMIT PREPARED or ROLLBACK PREPARED with the name of a prepared "
        "transaction, in its database) and start again.",
    ),
    "DATABASE_TRANSACTIONS_OPEN.PREPARED": Condition(
        "Prepared transactions that were open when the replication slot {slot} was made did not end within {seconds} "
        "seconds: {names}.",
        "They end with COMMIT PREPARED or ROLLBACK PREPARED and their name, in their database: `{statement}`. Then "
        "start again.",
    ),
    "DATABASE_COMMIT_NOT_VISIBLE": Condition(
        "A transaction of the log did not become visible within {seconds} seconds.",
        "With synchronous replication, check that the standby is connected. Reading resumes at the same position.",
    ),
    "DATABASE_POSITION_LOST.SLOT_MISSING": Condition(
        "The replication slot {slot}, read up to {lsn}, no longer exists.", _SNAPSHOT_AGAIN
    ),
    "DATABASE_POSITION_LOST.SLOT_REPLACED": Condition(
        "The replication slot {slot}, read up to {lsn}, was replaced: its plugin is {plugin}, its database {database}.",
        "The present one may hold the changes of another database's copy. Give the ingestion another `name`, then read "
        "its tables again: `sluice ingest resync --all`. Only if nothing reads the slot any more, drop it in its "
        "database: SELECT pg_drop_replication_slot('{slot}'). Then: " + _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.SLOT_INVALID": Condition(
        "The replication slot {slot}, read up to {lsn}, is lost: the server {cause}.",
        _SNAPSHOT_AGAIN + " {mend}",
    ),
    "DATABASE_POSITION_LOST.OTHER_SLOT": Condition(
        "Changes were read from the replication slot {slot} and the publication {publication} up to {lsn}, but the "
        "slot {named} and the publication {named_publication} are named now.",
        "Name the first ones again: nothing is lost. Or: " + _SNAPSHOT_AGAIN + " Then drop the slot {slot}, for which "
        "its server keeps the log: SELECT pg_drop_replication_slot('{slot}').",
    ),
    "DATABASE_POSITION_LOST.SLOT_AHEAD": Condition(
        "The replication slot {slot} was advanced to {confirmed} by another reader, but only changes up to {lsn} were "
        "read.",
        _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.PUBLICATION": Condition(
        "The publication {publication} of the replication slot {slot} was dropped, or did not send all operations.",
        _SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.PARTITION_ROOT": Condition(
        "The publication {publication} of the replication slot {slot} sends changes under the names of partitions.",
        "Run as its owner: `ALTER PUBLICATION {publication} SET (publish_via_partition_root = true)`. Nothing is lost.",
    ),
    "DATABASE_POSITION_LOST.TWO_PHASE": Condition(
        "The replication slot {slot} sends prepared transactions before they are committed (two_phase).",
        'With PostgreSQL 18 or newer, run on a replication connection (psql "dbname=… replication=database"): '
        "`ALTER_REPLICATION_SLOT {slot} (TWO_PHASE false)`. Nothing is lost then. Or: " + _SNAPSHOT_AGAIN,
    ),
    "POSTGRES_LOG_MESSAGE_UNKNOWN": Condition(
        "The log of PostgreSQL contains an unexpected message: {kind}.",
        "Report it with the version of the server.",
    ),
    "POSTGRES_LOG_OUT_OF_ORDER": Condition(
        "The log of PostgreSQL was read out of order: {problem}.",
        "Report it with the version of the server.",
    ),
}
