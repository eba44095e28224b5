"""Conditions of source databases: connections, permissions, tables, values, and findings of a preflight."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

READ_AGAIN = (
    "Read the table again: `sluice ingest resync {table}`. Without `ingest_database`, reset its snapshot flow: "
    "`sluice run --reset-checkpoint FLOW`."
)

SNAPSHOT_AGAIN = (
    "Changes are missing, so all tables must be read again: `sluice ingest resync --all --new-slot`. Without "
    "`ingest_database`, drop what the database keeps for the reader, and reset each flow of this source: "
    "`sluice run --reset-checkpoint FLOW`."
)
"""What to do about a log that lacks changes."""

RETRYABLE = frozenset(
    {
        "DATABASE_UNREACHABLE",
        "DATABASE_BUSY",
        "DATABASE_CONNECTION_LOST",
        "SNAPSHOT_CHUNK_TIMEOUT",
    }
)
"""Conditions that another attempt may heal without any other change."""

REFUSED_LOGINS = frozenset({"DATABASE_LOGIN_REFUSED", "DATABASE_TLS_FAILED"})
"""Conditions that an administrator mends while a continuous update runs, as when a password rotates."""

CONDITIONS: dict[str, Condition] = {
    "DRIVER_NOT_INSTALLED": Condition(
        "The package `{module}` is not installed; {source} needs it.",
        "Install it with the other drivers of this database: {install}.",
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
        "Set the environment variable {variable} to {example}, or write it after `{name}: ` to {path}, a file that Git "
        "must ignore.",
    ),
    "DATABASE_CONNECTION_INVALID": Condition(
        "The connection `{name}` is not a connection string.",
        "Write {example}, as a text or as `uri` of a mapping. In user and password, percent-encode the characters "
        "/ ? # @ : % and spaces, such as %40 for @.",
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
        "Supported: {example}.",
    ),
    "DATABASE_UNREACHABLE": Condition(
        "The database {address} of the connection `{connection}` cannot be reached: {cause}.",
        "Check that the server runs, and that host, port and firewall let this machine connect. The flow continues "
        "where it was.",
    ),
    "DATABASE_LOGIN_REFUSED": Condition(
        "The database {address} refuses the login of {role}: {cause}.",
        "Check user and password of the connection `{connection}`, and {login_rules}.",
    ),
    "DATABASE_TLS_FAILED": Condition(
        "A secure connection to {address} cannot be made: {cause}.",
        "Check {tls_parameters} in the connection `{connection}` against the server's certificate.",
    ),
    "DATABASE_NOT_FOUND": Condition(
        "The server of {address} has no such database: {cause}.",
        "Correct the database in the connection `{connection}`.",
    ),
    "DATABASE_BUSY": Condition(
        "The database {address} cannot run the query now: {cause} (SQLSTATE {state}).",
        "Try again; if it lasts, free connections, locks or space on the server.",
    ),
    "DATABASE_LOG_SHORTER_THAN_SNAPSHOT": Condition(
        "Reading all tables ({size}) takes about {estimate} at {rate} per second, but the database keeps its log for "
        "{kept} ({setting}): a pause in between may lose changes.",
        "Let the database keep its log for longer than that, or begin with fewer tables.",
    ),
    "DATABASE_PERMISSION": Condition(
        "The role {role} of the connection `{connection}` may not read {table}: {cause}.",
        "Run as the owner or as a superuser: `{statement}`.",
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
    "DATABASE_TEXT_COLUMN_UNKNOWN": Condition(
        "`text_columns` of the ingestion, or the option `textColumns` of the reader, names the column `{column}`, "
        "which {table} does not have.{hint}",
        "Correct the name, in the letter case that the database has.",
    ),
    "DATABASE_CONTINUITY_INVALID": Condition(
        "What is recorded of a table of the database can't be read: {problem}.",
        "Another release of Sluice wrote it: use that one for this storage, or read the table again: `sluice ingest "
        "resync <table>`.",
    ),
    "DATABASE_SELECT_MISSING": Condition(
        "The role {role} may not read {columns} of {table}.", "Run as its owner: `{statement}`."
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
    "DATABASE_CHILD_TABLES": Condition(
        "Tables inherit from {table}: {children}. Their rows are not read with it.",
        "Ingest them as tables of their own.",
    ),
    "DATABASE_GENERATED_COLUMNS": Condition(
        "The columns {columns} of {table} are generated: the log does not have them, so they are left out.",
        "Compute them in the pipeline from the other columns.",
    ),
    "SNAPSHOT_OFFSET_INVALID": Condition(
        "An offset of a database snapshot in the checkpoint is invalid: {problem}.",
        "Restore the checkpoint. Or read the table again: `sluice ingest resync TABLE`. Without `ingest_database`, "
        "reset its snapshot flow: `sluice run --reset-checkpoint FLOW`.",
    ),
    "SNAPSHOT_PLAN_INVALID": Condition(
        "The chunks that were planned for the table {table} are no longer valid: {reason}.",
        READ_AGAIN,
    ),
    "SNAPSHOT_COLUMN_CHANGED": Condition(
        "The column {column} of the table {table} has the type {found}, but had {expected} when the flow started.",
        "Run the pipeline again; the chunks that are read already are not read again.",
    ),
    "SNAPSHOT_SOURCE_CHANGED": Condition(
        "The snapshot of the table {table} began on the server {planned}, but the connection leads to {found}.",
        f"Connect to the first server again. If the other one replaces it: {READ_AGAIN}",
    ),
    "SNAPSHOT_TABLE_REPLACED": Condition(
        "The snapshot began with another table of the name {table} ({planned}, now {found}): it was dropped and "
        "created again, or the tables were renamed.",
        READ_AGAIN,
    ),
    "SNAPSHOT_ROW_FILTER_INVALID": Condition(
        "The database rejects the row filter ({filter}) of the table {table}: {message}",
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
    "DATABASE_POSITION_INVALID": Condition(
        "A position of the flow's checkpoint cannot be read: {problem}.",
        f"Restore the checkpoint. Or: {SNAPSHOT_AGAIN}",
    ),
    "DATABASE_POSITION_LOST.SOURCE": Condition(
        "The source is another one than before: {kind} was {before} and is {now} ({reader}, read up to {position}).",
        "Connect to the source of before. If the other one replaces it: " + SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.LOG_REMOVED": Condition(
        "The database has removed changes after the position {position}, up to which they were read ({reader}).",
        SNAPSHOT_AGAIN + " Let the database keep its log for longer, or update more often.",
    ),
    "DATABASE_POSITION_LOST.LOG_RESET": Condition(
        "The log ends at {end}, before the position {position} that was read ({reader}): the source was restored to an "
        "older state.",
        SNAPSHOT_AGAIN,
    ),
    "DATABASE_POSITION_LOST.LOG_REPLACED": Condition(
        "The log up to the position {position} has other transactions than those that were read ({reader}): the source "
        "was restored to an older state, and has gone on since.",
        SNAPSHOT_AGAIN,
    ),
}
