"""Conditions of source databases: connections, permissions, tables, values, and findings of a preflight."""

from __future__ import annotations

from framework.foundation.conditions.database_log import SLOT_OF_ANOTHER
from framework.foundation.conditions.entry import Condition

_READ_AGAIN = (
    "Read the table again: `sluice ingest resync {table}`. Without `ingest_database`, reset its snapshot flow: "
    "`sluice run --reset-checkpoint FLOW`."
)

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
    "DATABASE_CONTINUITY_INVALID": Condition(
        "What is recorded of a table of the database can't be read: {problem}.",
        "Another release of Sluice wrote it: use that one for this storage, or read the table again: `sluice ingest "
        "resync <table>`.",
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
