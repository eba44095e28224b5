"""Conditions of checkpoints that their flows can't continue from, of starts, and of comparisons.

Those of Spark and Delta have the names that Spark and Delta raise.
"""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

BROKEN_CHECKPOINT = Condition("Flow {flow} cannot continue from its checkpoint: {problem}", "{ways}")

SOURCES_CHANGED = "STREAMING_SOURCES_CHANGED"
"""Spark has an assertion in place of a condition."""

SOURCE_FILES_GONE = "DELTA_SOURCE_FILES_GONE"
"""Spark reports a file that does not exist, of any kind and of any table."""

PUT_BACK = "DELTA_SOURCE_PUT_BACK"
"""A version that a stream has read is another commit now; Delta would read on behind it."""

COLUMNS_DROPPED = "DELTA_SOURCE_COLUMNS_DROPPED"
"""A version that a stream begins with, or has read last, has columns that the table no longer has."""

COLUMNS_REPLACED = (
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
)
"""A column was renamed or dropped, or has another type; Delta recommends different options."""

REMOVED_ROWS = frozenset({"DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"})
"""A stream of a Delta table came to a commit that removes or changes rows."""

UNREADABLE_COMMITS = frozenset({SOURCE_FILES_GONE, *REMOVED_ROWS, *COLUMNS_REPLACED})
"""A stream that begins where the checkpoint ends comes to the same commit, and fails again."""

BREAKS = (
    SOURCES_CHANGED,
    SOURCE_FILES_GONE,
    PUT_BACK,
    *COLUMNS_REPLACED,
    "CANNOT_LOAD_STATE_STORE",
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
    "CHECKPOINT_FILE_DAMAGED",
    "CHECKPOINT_OLDER_THAN_REWIND",
    "CLOUD_FILES_POSITION_LOST",
    "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_SOURCE_IGNORE_DELETE",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    "KAFKA_DATA_LOSS",
    "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
    "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
    "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
    "KAFKA_DATA_LOSS.PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT",
    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
    "KAFKA_DATA_LOSS.START_OFFSET_RESET",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STREAMING_QUERY_EVOLUTION_ERROR",
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "TABLE_OLDER_THAN_CHECKPOINT",
)
"""The conditions after which a flow fails in every update until someone acts."""

CONDITIONS: dict[str, Condition] = {
    **dict.fromkeys(BREAKS, BROKEN_CHECKPOINT),
    COLUMNS_DROPPED: Condition(
        "Flow {flow} can't read version {version} of {table}: a column that it has was dropped since, or has another "
        "type. Delta reads such a version in no stream. The present columns are there from version {first} on.",
        "{ways}",
    ),
    "HISTORY_WITHOUT_TABLE": Condition(
        "`--keep-history` has no table.", "Name the tables: `sluice run --full-refresh TABLE --keep-history`."
    ),
    "HISTORY_KEYS_WITHOUT_HISTORY": Condition(
        "`--history-keys` has no history to keep.",
        "Write `sluice run --full-refresh TABLE --keep-history --history-keys KEYS`.",
    ),
    "HISTORY_NOT_KEPT": Condition(
        "The rows of {dataset} cannot be put back after a full refresh: {reason}.",
        "Run the full refresh without `--keep-history`; a copy of its rows is not made.",
    ),
    "HISTORY_KEYS_OF_AUTO_CDC": Condition(
        "{dataset} is a target of AUTO CDC, which has keys: {keys}.", "Leave `--history-keys` out."
    ),
    "HISTORY_KEY_NOT_FOUND": Condition("{dataset} has no column {column}.{hint}", "Correct `--history-keys`."),
    "HISTORY_NOT_RECOGNIZED": Condition(
        "None of the {rows} rows that {dataset} had is among its refreshed rows. If its query or a column such as the "
        "time of arrival changes every row, all of them would be there twice. The table is as it was.",
        "Name the columns that identify a row: `sluice run --full-refresh {dataset} --keep-history --history-keys "
        "KEYS`. Or give them up, without `--keep-history`. The rows are also in {path}.",
    ),
    "HISTORY_NEEDS_KEYS": Condition(
        "{dataset} is an append table, and nothing says which of its rows its sources still have: a row that the "
        "present code would write in another way would be there twice. Nothing is written.",
        "Name the columns that identify a row: `sluice run --full-refresh {dataset} --keep-history --history-keys "
        "KEYS`. If the code is the one that wrote all rows, `--history-keys '*'` compares all columns.",
    ),
    "HISTORY_KEYS_AMBIGUOUS": Condition(
        "{keys} do not identify the rows of {dataset}: of {count} value(s) of them the sources still have some rows, "
        "but not all, and it is unknown which. The table is as it was.",
        "Name more columns in `--history-keys`, so that a row has values of its own. The rows are also in {path}.",
    ),
    "FULL_REFRESH_OF_PAUSED_TABLE": Condition(
        "A full refresh of {dataset} can't begin: {reason}. Nothing is written.",
        "Resume it first, then run the full refresh again.",
    ),
    "FULL_REFRESH_OF_APPEND_ONLY_TABLE": Condition(
        "The table of {dataset} has the property delta.appendOnly, so that a full refresh can't replace its rows. "
        "Nothing is written.",
        "Set the property to false, then repeat the full refresh: ALTER TABLE {table} SET TBLPROPERTIES "
        "('delta.appendOnly' = 'false'). If `table_properties` declares the property, it is set again afterwards.",
    ),
    "FULL_REFRESH_VIOLATES_CONSTRAINT": Condition(
        "The full refresh of {dataset} has read all rows, but the table does not take them: some violate its CHECK "
        "constraint {constraint} ({check}). The table is as it was. Its flows do not run until the refresh is done.",
        "Correct the query, and refresh again: `sluice run --full-refresh {dataset}`.\n  -> Or: drop the constraint, "
        "and the next update publishes the rows: {statement}",
    ),
    "FULL_REFRESH_MISFITS_CONSTRAINT": Condition(
        "The full refresh of {dataset} has read all rows, but its columns do not fit the table's CHECK constraint "
        "{constraint} ({check}). The table is as it was. Its flows do not run until the refresh is done. "
        "Spark reports: {problem}",
        "Drop the constraint, and the next update publishes the rows: {statement}\n  -> Or: return the column as "
        "before, and refresh again: `sluice run --full-refresh {dataset}`.",
    ),
    "FULL_REFRESH_UNFINISHED": Condition(
        "A full refresh of {dataset} is not finished. It reads all data of its sources anew, and what is changed in "
        "between would be undone when it ends.",
        "Finish it with `sluice run --refresh {dataset}`, then repeat the command. Or start it over: "
        "`sluice run --full-refresh {dataset}`.",
    ),
    "REBUILD_COPY_LOST": Condition(
        "The copy that a full refresh of {dataset} has filled is not in {path} any more. The table is as it was.",
        "Start the full refresh again: `sluice run --full-refresh {dataset}`.",
    ),
    "BACKUP_LOST": Condition(
        "Backup {number} of {dataset}, whose rows are to be put back, is not there any more.",
        "Start the full refresh again: `sluice run --full-refresh {dataset} --keep-history`. The table is as it was.",
    ),
    "BACKUP_NOT_FOUND": Condition("{dataset} has no backup{number}.{known}", "`sluice backups list` lists them."),
    "BACKUP_IN_USE": Condition(
        "Backup {number} of {dataset} is needed by a full refresh that is not finished.",
        "Finish it with `sluice run`, then drop the backup.",
    ),
    "DOCTOR_WAY_UNKNOWN": Condition(
        "{flow} has {count} way(s) out, and none with the number {number}.",
        "`sluice doctor` lists them by number.",
    ),
    "DOCTOR_WAY_FOR_PERSON": Condition(
        "Way out {number} of {flow} can't be applied by a command: {text}",
        "Do it by hand, or choose one with a command.",
    ),
    "DOCTOR_FINDING_CHANGED": Condition(
        "The finding on flow {flow} is no longer what was shown: its position or its ways out have changed. Nothing "
        "was changed.",
        "Run `sluice doctor` again.",
    ),
    "DOCTOR_NOT_CONFIRMED": Condition(
        "`sluice doctor --apply` asks for confirmation, but standard input is not a terminal.",
        "Review it with `sluice doctor {flow} --apply {number} --dry-run`, then add `--yes`.",
    ),
    "START_INVALID": Condition(
        "{start!r} is not a valid start of a source.",
        "Write `option=value` or a word, for example `startingVersion=12`, `startingTimestamp=2025-04-09T18:15:00Z`, "
        "`earliest`. In a flow of several sources, write the name of the source before it: `orders:earliest`.",
    ),
    "START_WITHOUT_FLOW": Condition(
        "`--from` has no flow: it belongs to the `--reset-checkpoint` before it.",
        "Write `--reset-checkpoint FLOW --from START`.",
    ),
    "START_NOT_SUPPORTED": Condition(
        "The source {source} cannot start at {start!r}. {possible}",
        "Choose one of its starts, or reset the flow without `--from`: then it starts as its code says.",
    ),
    "START_SOURCE_UNKNOWN": Condition(
        "Flow {flow} has no source {source}. Its sources: {sources}.", "Correct the name before the start."
    ),
    "START_SOURCE_MISSING": Condition(
        "Flow {flow} reads several sources, and these have no start: {sources}.",
        "Add `--from SOURCE:START` for each of them.",
    ),
    "START_REPEATED": Condition(
        "The source {source} of flow {flow} has more than one start.", "Write one start for each source."
    ),
    "START_NOT_AVAILABLE": Condition(
        "The Delta table {source} has no version {version}: its log has versions {first} to {last}.",
        "Choose one of these versions. A reset without `--from`, or a full refresh, also reads rows of earlier ones.",
    ),
    "START_WITH_FULL_REFRESH": Condition(
        "Flow {flow} has a start, and its target is fully refreshed in the same update.",
        "Do one of both: a full refresh reads all data of its sources.",
    ),
    "START_OF_FLOW_NOT_STREAMING": Condition(
        "Flow {flow} reads no stream, so it has no start.", "Reset it without `--from`."
    ),
    "RECONCILE_TABLE_NOT_FOUND": Condition(
        "{table} is no dataset with a table, no table of Spark's catalog and no folder with a Delta table.{hint}",
        "Write a name, a folder as delta.`/path`, or a table of a database as database:CONNECTION/schema.table.",
    ),
    "RECONCILE_VERSION_NOT_DELTA": Condition(
        "{table} selects a version, but the table is no Delta table.", "Remove the suffix from the name."
    ),
    "RECONCILE_TWO_DATABASES": Condition(
        "{first} and {second} are both tables of a database.", "Compare each of them with its copy."
    ),
    "RECONCILE_DATABASE_NOT_COMPARED": Condition(
        "{table} can't be compared: the dialect of {database} does not read a whole table at one position of its log.",
        "Compare the copy with an export of the table.",
    ),
    "RECONCILE_COLUMN_MISSING": Condition(
        "{table} has no column {column!r}.{hint}", "Name columns that both tables have in --keys and --columns."
    ),
    "RECONCILE_KEY_TYPES_DIFFER": Condition(
        "The key column {column!r} has the types {first_type} and {second_type}, which have no common type.",
        "Name other columns in --keys.",
    ),
    "RECONCILE_NOTHING_IN_COMMON": Condition(
        "{first} and {second} have no column in common that can be compared.",
        "Compare two tables of the same columns, or rename the columns of one in a view.",
    ),
    "RECONCILE_CONDITION_INVALID": Condition(
        "The condition {text!r} is invalid for {table}: {cause}",
        "Write a SQL condition over columns that both tables have.",
    ),
    "LAG_FLOW_NOT_FOUND": Condition(
        "The pipeline has no flow {flow}.{hint}", "Correct the name. `sluice lag` without a name lists all flows."
    ),
}
