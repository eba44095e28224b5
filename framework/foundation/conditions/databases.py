"""Conditions of source databases: connections, permissions, tables, values, and findings of a preflight."""

from __future__ import annotations

from framework.foundation.conditions.database_log import SLOT_OF_ANOTHER
from framework.foundation.conditions.entry import Condition

_READ_AGAIN = (
    "Read the table again: `sluice ingest resync {table}`. Without `ingest_database`, reset its snapshot flow: "
    "`sluice run --reset-checkpoint FLOW`."
)
_RESYNC = "Read the table again: `sluice ingest resync {table}`."

RETRYABLE = frozenset(
    {
        "DATABASE_UNREACHABLE",
        "DATABASE_BUSY",
        "DATABASE_CONNECTION_LOST",
        "DATABASE_SLOT_IN_USE",
        "DATABASE_POSITION_BUSY",
        "DATABASE_TRANSACTIONS_OPEN",
        "DATABASE_COMMIT_NOT_VISIBLE",
        "SNAPSHOT_CHUNK_TIMEOUT",
    }
)
"""Conditions that another attempt may heal without any other change."""

REFUSED_LOGINS = frozenset({"DATABASE_LOGIN_REFUSED", "DATABASE_TLS_FAILED"})
"""Conditions that an administrator mends while a continuous update runs, as when a password rotates."""

CONDITIONS: dict[str, Condition] = {
    "INGESTION_WITHOUT_TABLES": Condition(
        "The ingestion `{name}` has no table: no table of its schemas matches.", "Correct `include` and `exclude`."
    ),
    "INGESTION_SEQUENCE_BY": Condition(
        "{function}(): `{argument}` has `sequence_by`, which has no use here: changes are applied in the order of the "
        "database's log, and a deleted row has no column to order it by.",
        "Remove it.",
    ),
    "INGESTION_APPEND_ONLY": Condition(
        "{function}(): `{argument}` is APPEND_ONLY, which is not exact here: a row that is inserted while its chunk is "
        "read is in the chunk and in the log, and without a key it would be appended twice.",
        "Use SCD_TYPE_1: rows that are only inserted end as they would be appended.",
    ),
    "INGESTION_TARGET_TWICE": Condition(
        "The tables {tables} would have the same copy, {target}.",
        "Give one of them another `destination_table` or `destination_schema`, or exclude it.",
    ),
    "INGESTION_TABLE_TWICE": Condition(
        "The objects of the ingestion `{name}` contain the table {table} twice, with {targets}.",
        "Remove one of them, or add the table to `exclude` of its schema.",
    ),
    "INGESTION_WITHOUT_KEY": Condition(
        "The table {table} has no key that the database keeps unique, so a change in the log may be for several rows.",
        "Add one at the source, such as `{statement}`, or exclude the table. A key that is DEFERRABLE does not count: "
        "drop its constraint first, and add it without DEFERRABLE.",
    ),
    "INGESTION_KEY_NOT_IN_LOG": Condition(
        "The table {table} has `primary_keys` {given}, but its log identifies rows by {key}.",
        "Name the columns of the log, or let it identify rows by a unique index of the others: `{statement}`. If rows "
        "were changed meanwhile, read the copy again: `sluice ingest resync {table}`.",
    ),
    "INGESTION_KEY_EXCLUDED": Condition(
        "The table_configuration of {table} excludes `{column}`, which is a part of its key.",
        "Remove it from `exclude_columns`.",
    ),
    "INGESTION_COLUMN_UNKNOWN": Condition(
        "The table {table} has no column `{column}`, which its table_configuration names.{hint}",
        "Correct the name, in the letter case that the database has.",
    ),
    "INGESTION_ROW_FILTER_INVALID": Condition(
        "The row filter ({filter}) of the table {table} is invalid: {cause}",
        "Correct `row_filter`: one condition in Spark SQL over the columns of the table, such as `region = 'EU'`.",
    ),
    "INGESTION_TABLE_REPLACED": Condition(
        "The source has another table of the name {table} than the one that was copied: it was dropped and created "
        "again, or the tables were renamed. Its rows and its changes are not mixed with those of the copy.",
        f"{_RESYNC} Rows that the present table does not have are then deleted. Or give the first table its name back.",
    ),
    "INGESTION_PARTITIONS_CHANGED": Condition(
        "Rows of the table {table} came or went with a partition, which is not in the log: {change}.",
        f"{_RESYNC} With --where, only the rows that the condition selects are compared: it must select all rows of "
        "these partitions.",
    ),
    "INGESTION_TABLE_UNPUBLISHED": Condition(
        "The table {table} was taken out of the publication {publication}: changes from then on are not in the log, "
        "also if it was put in again.",
        f"{_RESYNC} It is put in again first, if the role of the connection owns the table.",
    ),
    "INGESTION_HISTORY_TRUNCATED": Condition(
        "The table {table} was truncated at the source, which its copy with SCD_TYPE_2 can't represent.",
        f"Copy it with SCD_TYPE_1. Or close all rows of its history, without --where. {_RESYNC}",
    ),
    "INGESTION_CHANGE_UNREADABLE": Condition(
        "A change of the table {table} can't be applied: {cause}",
        "If a value is the cause, correct it at the source, or name its column in `text_columns`. Then read the table "
        "again, without --where: `sluice ingest resync {table}` passes this change over.",
    ),
    "INGESTION_COLUMNS_CHANGED": Condition(
        "The columns of the table {table} changed at the source: {change}. Rows of the copy that have no change in the "
        "log would be wrong.",
        f"{_RESYNC} If columns are gone or have other types, the copy is built anew, and a history begins there.",
    ),
    "INGESTION_COLUMNS_NEWER": Condition(
        "A change of the table {table} is of other columns than its copy: they changed after the update had begun, or "
        "for a while between two updates.",
        f"Run the next update: it goes on if a column without values was added. Otherwise: {_RESYNC}",
    ),
    "INGESTION_TABLE_REDEFINED": Condition(
        "The copy of the table {table} was declared in another way: {change}. Its rows would be a mixture.",
        f"Undo the change. Or: {_RESYNC} With other types, keys or SCD types the copy is built anew.",
    ),
    "INGESTION_OF_OTHER_STORAGE": Condition(
        "The replication slot {slot} of the ingestion `{name}` is read by another storage, {other}, of which this one "
        "is a copy: it would miss the changes that are read here.",
        "Give the ingestion another `name` in the code that uses this storage, and another `slot` if it has that "
        "option; then read its tables again: `sluice ingest resync`. Or, if the other storage is not used any more, "
        "delete the file storage.json in its folder.",
    ),
    "INGESTION_NONE": Condition(
        "The pipeline has no ingestion.", "Declare one with ingest_database(), see docs/databases.md."
    ),
    "INGESTION_GATEWAY_UNKNOWN": Condition(
        "There is no gateway `{name}`; there are: {known}.{hint}", "Correct the name after --gateway."
    ),
    "INGESTION_GATEWAY_AMBIGUOUS": Condition(
        "The pipeline has several gateways: {known}.", "Name one with --gateway, or name a table."
    ),
    "INGESTION_TABLE_UNKNOWN": Condition(
        "No gateway copies a table `{name}`.{hint}",
        "Use the name at the source, such as public.orders, or that of the copy; `sluice ingest status` lists both.",
    ),
    "INGESTION_TABLE_AMBIGUOUS": Condition(
        "The name `{name}` may mean several tables: {tables}.", "Use the full name of the copy, or --gateway."
    ),
    "INGESTION_NOT_STARTED": Condition(
        "No update has copied `{name}` yet, so there is nothing to read again.", "Run `sluice run`."
    ),
    "INGESTION_SNAPSHOT_COMPLETE": Condition(
        "The snapshot of {table} is complete.", "Nothing to do; `sluice ingest resync` reads the table again."
    ),
    "INGESTION_SNAPSHOT_OF_REBUILD": Condition(
        "The snapshot of {table} builds its copy anew, so it ends at its last row only. Until then the copy has the "
        "rows of before.",
        "Let it end, or stop it until `sluice ingest resume`: `sluice ingest pause {table}`.",
    ),
    "INGESTION_REFRESH_NOT_BEGUN": Condition(
        "The full refresh of {dataset} could not begin, and the copy keeps its rows. {cause}",
        "{remedy} Then: `sluice run --full-refresh {dataset}`.",
    ),
    "INGESTION_CHANGES_NOT_APPLIED": Condition(
        "A full refresh of {dataset} would lose the changes that its copies have not applied: some of them are not "
        "refreshed with it, are paused, or have a fault.",
        "Refresh the copies alone, or everything: `sluice run --full-refresh-all`. To read all tables again from a new "
        "slot: `sluice ingest resync --all --new-slot`.",
    ),
    "INGESTION_RESYNC_NEEDS_ALL_ROWS": Condition(
        "The log lacks changes of the table {table} ({gap}), and no condition is known to select their rows.",
        "Read all rows again, without --where: `{command}`.",
    ),
    "INGESTION_RESYNC_OF_FILTERED_ROWS": Condition(
        "The copy of the table {table} has the row filter ({filter}): a snapshot of some rows would leave those in it "
        "that no longer meet it.",
        "Read all rows again, without --where: `{command}`.",
    ),
    "INGESTION_RESYNC_OPTIONS": Condition(
        "The options do not fit: `resync` takes a table or --all; --where needs a table, --new-slot needs --all.",
        "Name a table, or use --all. A new slot has no older changes of any table, so all tables are read again.",
    ),
    "INGESTION_STATE_DAMAGED": Condition(
        "The state of a gateway in {path} is damaged: {problem}.",
        "Restore the file from a backup. Without one, delete it, and refresh the copies of the gateway fully.",
    ),
    "DRIVER_NOT_INSTALLED": Condition(
        "The package `{module}` is not installed; {source} needs it.",
        "Install the drivers of PostgreSQL: pip install 'sluice-spark[postgres]'.",
    ),
    "DATABASE_OPTION_UNKNOWN": Condition(
        "The source `{source}` has no option `{option}`.{hint}", "Correct its name, or remove it."
    ),
    "DATABASE_OPTION_MISSING": Condition(
        "The source `{source}` needs the option `{option}`.", "Add it to the reader: `.option({option!r}, …)`."
    ),
    "DATABASE_OPTION_INVALID": Condition(
        "The option `{option}` of the source `{source}` is `{value}`, but must be {expected}.", "Correct its value."
    ),
    "DATABASE_COLUMN_UNKNOWN": Condition(
        "The table {table} has no column `{column}`.{hint}",
        "Correct the option `columns`; generated columns can't be read, because the log does not have them.",
    ),
    "DATABASE_CONNECTION_UNKNOWN": Condition(
        "The connection `{name}` is not defined; defined are: {known}.{hint}",
        "Set the environment variable {variable} to postgresql://user:password@host:port/database, or write "
        "`{name}: postgresql://…` to {path}, a file that Git must ignore.",
    ),
    "DATABASE_CONNECTION_INVALID": Condition(
        "The connection `{name}` is not a connection string.",
        "Write postgresql://user:password@host:port/database, as a text or as `uri` of a mapping. In user and "
        "password, percent-encode the characters / ? # @ : % and spaces, such as %40 for @.",
    ),
    "DATABASE_CONNECTIONS_UNREADABLE": Condition(
        "The connections in {path} cannot be read: {cause}.",
        "Give this process read permission for the file, or correct it.",
    ),
    "DATABASE_CONNECTIONS_INVALID": Condition(
        "The file {path} is invalid: {cause}.", "Write one line for each connection: a name, a colon and a URI."
    ),
    "DATABASE_CONNECTIONS_READABLE": Condition(
        "The file {path} contains passwords, and other users of this machine can read it.", "Run: `{statement}`."
    ),
    "DATABASE_CONNECTIONS_NOT_IGNORED": Condition(
        "The file {path} contains passwords, and Git does not ignore it.", "Run: `{statement}`."
    ),
    "DATABASE_KIND_NOT_SUPPORTED": Condition(
        "The database of the connection `{name}` cannot be read: {problem}.",
        "Supported is PostgreSQL: postgresql://user:password@host:port/database.",
    ),
    "DATABASE_UNREACHABLE": Condition(
        "The database {address} of the connection `{connection}` cannot be reached: {cause}.",
        "Check that the server runs, and that host, port and firewall let this machine connect. The flow continues "
        "where it was.",
    ),
    "DATABASE_LOGIN_REFUSED": Condition(
        "The database {address} refuses the login of {role}: {cause}.",
        "Check user and password of the connection `{connection}`, and the rules of pg_hba.conf for this machine.",
    ),
    "DATABASE_TLS_FAILED": Condition(
        "A secure connection to {address} cannot be made: {cause}.",
        "Check `sslmode` and `sslrootcert` in the connection `{connection}` against the server's certificate.",
    ),
    "DATABASE_PARAMETER_INVALID": Condition(
        "The driver rejects the connection `{connection}`: {cause}.",
        "Correct its parameters; they have the names and values of libpq's connection strings.",
    ),
    "DATABASE_NOT_FOUND": Condition(
        "The server of {address} has no such database: {cause}.",
        "Correct the database in the connection `{connection}`.",
    ),
    "DATABASE_BUSY": Condition(
        "The database {address} cannot run the query now: {cause} (SQLSTATE {state}).",
        "Try again; if it lasts, free connections, locks or space on the server.",
    ),
    "DATABASE_PERMISSION": Condition(
        "The role {role} of the connection `{connection}` may not read {table}: {cause}.",
        "Run as the owner or as a superuser: `{statement}`.",
    ),
    "DATABASE_REPLICATION_ROLE": Condition(
        "The role {role} may not use logical replication.",
        "Run as a superuser: `{statement}`. On Amazon RDS: `GRANT rds_replication TO {role}`.",
    ),
    "DATABASE_TABLE_MISSING": Condition(
        "{table} does not exist in {address}: {cause}",
        "Correct the name in the code, in the letter case that the database has, or create the table.",
    ),
    "DATABASE_COLUMN_MISSING": Condition(
        "A column of {table} is missing: {cause}.",
        "Correct the columns and the row filter of the table in the code.",
    ),
    "DATABASE_SCHEMA_MISSING": Condition(
        "The database has no schema `{schema}`.{hint}",
        "Correct `source_schema` of the ingestion, in the database's letter case.",
    ),
    "DATABASE_NOT_A_TABLE": Condition(
        "{table} is {kind}: it has no rows of its own in the log.", "Read the tables that it is made of."
    ),
    "DATABASE_QUERY_FAILED": Condition(
        "A query on {address} failed: {cause} (SQLSTATE {state}).", "See the log of the database server."
    ),
    "DATABASE_VALUE_NOT_REPRESENTABLE": Condition(
        "The value {value} in column {column} of {table} cannot be represented: Spark has no such value for the type "
        "{type}.",
        "Correct the value in the source, or read the column as text: name it in `text_columns` of the table's "
        "`table_configuration`, or in the option `textColumns` of a reader of your own.",
    ),
    "DATABASE_VALUE_NOT_LOGGED": Condition(
        "The log left out {columns} of an updated row of {table}, because the update did not change it, and the table "
        "no longer has the value of that time; with `{statement}` the log has all values.",
        "Run the statement. Then read the table again.",
    ),
    "DATABASE_TEXT_NOT_UTF8": Condition(
        "A text of {table} in the log is not UTF-8: {cause}.",
        "Correct the value in the source: a database with the encoding SQL_ASCII does not check it.",
    ),
    "DATABASE_TEXT_COLUMN_UNKNOWN": Condition(
        "`text_columns` of the ingestion, or the option `textColumns` of the reader, names the column `{column}`, "
        "which {table} does not have.{hint}",
        "Correct the name, in the letter case that the database has.",
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
        SLOT_OF_ANOTHER,
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
    "DATABASE_SELECT_MISSING": Condition(
        "The role {role} may not read {columns} of {table}.", "Run as its owner: `{statement}`."
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
    "DATABASE_TABLE_WITHOUT_KEY": Condition(
        "{table} has no key: its rows are read by their place on disk, and equal rows can't be distinguished.",
        "Add a primary key that is not DEFERRABLE, in place of one that is. An ingestion refuses the table without "
        "one: leave it out with `exclude`.",
    ),
    "DATABASE_KEY_NULLABLE": Condition(
        "The only unique index of {table} allows NULL in {columns}: rows with NULL can't be distinguished.",
        "Run as its owner, if no row has NULL: `{statement}`.",
    ),
    "DATABASE_FOREIGN_PARTITION": Condition(
        "The partitions {partitions} of {table} are foreign tables: their changes are not in the log.",
        "Detach them, and read them from their own server: `{statement}`.",
    ),
    "DATABASE_CHILD_TABLES": Condition(
        "Tables inherit from {table}: {children}. Their rows are not read with it.",
        "Ingest them as tables of their own.",
    ),
    "DATABASE_GENERATED_COLUMNS": Condition(
        "The columns {columns} of {table} are generated: the log does not have them, so they are left out.",
        "Compute them in the pipeline from the other columns.",
    ),
    "DATABASE_TOAST_READ_AGAIN": Condition(
        "The log leaves out large values of {columns} of {table} that an update does not change: such rows are read "
        "again by their key.",
        "If that is too slow, run as its owner, at the price of a larger log: `{statement}`.",
    ),
    "SNAPSHOT_OFFSET_INVALID": Condition(
        "An offset of a database snapshot in the checkpoint is invalid: {problem}.",
        "Restore the checkpoint. Or read the table again: `sluice ingest resync TABLE`. Without `ingest_database`, "
        "reset its snapshot flow: `sluice run --reset-checkpoint FLOW`.",
    ),
    "SNAPSHOT_PLAN_INVALID": Condition(
        "The chunks that were planned for the table {table} are no longer valid: {reason}.",
        _READ_AGAIN,
    ),
    "SNAPSHOT_COLUMN_CHANGED": Condition(
        "The column {column} of the table {table} has the type {found}, but had {expected} when the flow started.",
        "Run the pipeline again; the chunks that are read already are not read again.",
    ),
    "SNAPSHOT_SOURCE_CHANGED": Condition(
        "The snapshot of the table {table} began on the server {planned}, but the connection leads to {found}.",
        f"Connect to the first server again. If the other one replaces it: {_READ_AGAIN}",
    ),
    "DATABASE_PARTITION_TRUNCATED": Condition(
        "A partition of the table {table} was truncated (oid {oid}) while its publication was without "
        "publish_via_partition_root.",
        _READ_AGAIN,
    ),
    "DATABASE_CHANGE_WITHOUT_KEY": Condition(
        "A change of the table {table} does not say which row it is of: it has no value of the key ({columns}). The "
        "replica identity was another one at that time, or the key had NULL.",
        f"Compare the replica identities of the table and of its partitions: `sluice ingest preflight`. {_READ_AGAIN}",
    ),
    "DATABASE_PARTITION_GONE": Condition(
        "Rows of the table {table} were in its partition {partition}, which is detached or dropped by now. Which rows "
        "these were is not in the log.",
        _READ_AGAIN,
    ),
    "SNAPSHOT_TABLE_REPLACED": Condition(
        "The snapshot began with another table of the name {table} (oid {planned}, now {found}): it was dropped and "
        "created again, or the tables were renamed.",
        _READ_AGAIN,
    ),
    "SNAPSHOT_ROW_FILTER_INVALID": Condition(
        "PostgreSQL rejects the row filter ({filter}) of the table {table}: {message}",
        "Correct `row_filter`, or ask again with `sluice ingest resync`: one SQL condition over its columns, "
        "such as `region = 'EU'`.",
    ),
    "SNAPSHOT_CHUNK_TIMEOUT": Condition(
        "Chunk {number} of the table {table} was cancelled after at most {seconds} s: {message}",
        "Make the chunks smaller with the option `chunkBytes`, which `options` of `ingest_database` takes, too. A "
        "statement that runs for long blocks ALTER TABLE on the source, and the queries that wait behind it.",
    ),
    "SNAPSHOT_IN_ONE_CHUNK": Condition(
        "The table {table} is read in one chunk: {reason}.",
        "If the read is interrupted, it starts again. Add a primary key or a unique index to read the table in chunks.",
    ),
}
