"""Conditions of AUTO CDC: declarations, sequences, changes of the declaration, snapshots."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_FULL_REFRESH = "Rebuild {target} with a full refresh: `sluice run --full-refresh {target}`."
_NEXT_SNAPSHOT = "Return a tuple (DataFrame, version), or None if there is no newer snapshot."

CONDITIONS: dict[str, Condition] = {
    "AUTOCDC_EMPTY_KEYS": Condition(
        "AUTO CDC flow {flow} has no key columns.", "Set `keys` to the columns that identify a row."
    ),
    "AUTOCDC_DUPLICATE_KEYS": Condition(
        "`keys` of AUTO CDC flow {flow} contains the column {key} more than once.", "Remove the duplicate."
    ),
    "AUTOCDC_KEY_TYPE": Condition(
        "Key column {key} of AUTO CDC flow {flow} has type {type}, which is not supported for keys.",
        "Use columns of an orderable type: not void, map, variant or interval.",
    ),
    "AUTOCDC_COLUMN_TYPE": Condition(
        "Column {column} of AUTO CDC flow {flow} has type {type}; a Delta table cannot store {part}.",
        "Cast the column in the source, for example to a string, or exclude it with "
        "`except_column_list`, which flows from snapshots do not have.",
    ),
    "AUTOCDC_SEQUENCE_TYPE": Condition(
        "`sequence_by` of AUTO CDC flow {flow} has type {type}, which a Delta table cannot store.",
        "Use a number, a date, a timestamp, a string without a collation, or a struct of these types.",
    ),
    "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA": Condition(
        "`{parameter}` of AUTO CDC flow {flow} contains {missing}, which the source does not have. Columns of the "
        "source: {available}.",
        "{advice}",
    ),
    "AUTOCDC_COLUMN_MISPLACED": Condition(
        "`{parameter}` of AUTO CDC flow {flow} contains {columns}, {reason}.", "Remove it from the list."
    ),
    "AUTOCDC_AMBIGUOUS_COLUMNS": Condition(
        "The source of AUTO CDC flow {flow} has columns whose names are equal if case is ignored: {columns}.",
        "Rename the columns in the source, or exclude them with `except_column_list`, which flows "
        "from snapshots do not have.",
    ),
    "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA": Condition(
        "The columns that AUTO CDC flow {flow} selects do not include the key columns {keys}.",
        "Select every key column: add it to `column_list`, or remove it from `except_column_list`.",
    ),
    "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST": Condition(
        "AUTO CDC flow {flow} sets both `{parameter}` and `{except_parameter}`.", "Remove one of the two."
    ),
    "AUTOCDC_RESERVED_COLUMN_NAME_PREFIX_CONFLICT": Condition(
        "Column {column} of AUTO CDC flow {flow} has a name that is reserved for AUTO CDC.",
        "Rename the column in the source, or exclude it with `except_column_list`, which flows "
        "from snapshots do not have.",
    ),
    "AUTOCDC_FILE_METADATA_COLUMN": Condition(
        "Column {column} of AUTO CDC flow {flow} has the name of Spark's file metadata column, which Delta needs to "
        "apply deletion vectors; a target with such a column cannot be read.",
        "Rename the column in the query that the flow reads, for example `col('_metadata').alias('file_metadata')`, or "
        "exclude it with `except_column_list`, which flows "
        "from snapshots do not have.",
    ),
    "AUTOCDC_EXPRESSION_INVALID": Condition(
        "`{parameter}` of AUTO CDC flow {flow} is {expression}, which cannot be resolved in the source ({reason}).",
        "Use the columns of the source: {available}.",
    ),
    "AUTOCDC_EXPRESSION_NOT_OF_ROW": Condition(
        "`{parameter}` of AUTO CDC flow {flow} is {expression}, which depends on more than the row: {dependency}.",
        "Compute the value in a dataset that the flow reads, so that it is stored with each row, and use its column.",
    ),
    "AUTOCDC_CONDITION_NOT_BOOLEAN": Condition(
        "`{parameter}` of AUTO CDC flow {flow} is {expression} of type {type}; expected a boolean expression.",
        "Use a condition such as `operation = 'DELETE'`.",
    ),
    "AUTOCDC_MISSING_SEQUENCE_BY": Condition(
        "AUTO CDC flow {flow} has no `sequence_by`.",
        "Set `sequence_by` to the column or expression that orders the events.",
    ),
    "AUTOCDC_INCOMPATIBLE_SEQUENCES": Condition(
        "Flows {flow} and {other_flow} of {target} use the incompatible types {type} and {other_type} in "
        "`sequence_by`.",
        "Use one type in all flows of the target. For a once flow that precedes all events, use `lit(0)`.",
    ),
    "AUTOCDC_DIFFERENT_KEYS": Condition(
        "Flows {flow} and {other_flow} of {target} have different keys: {keys} and {other_keys}.",
        "Use the same `keys` in all AUTO CDC flows of the target.",
    ),
    "AUTOCDC_DIFFERENT_SCD_TYPES": Condition(
        "Flows {flow} and {other_flow} of {target} have different SCD types: {scd_type} and {other_scd_type}.",
        "Use the same `stored_as_scd_type` in all AUTO CDC flows of the target.",
    ),
    "AUTOCDC_DIFFERENT_TRACK_HISTORY": Condition(
        "Flows {flow} and {other_flow} of {target} track the history of different columns.",
        "Use the same `track_history_column_list` in all flows of the target, or set it in only one.",
    ),
    "AUTOCDC_DIFFERENT_SOFT_DELETES": Condition(
        "Flow {flow} of {target} flags deleted rows in column {column}, and another flow in {other}.",
        "Use the same `soft_deletes` in all flows of the target, or set it in only one.",
    ),
    "AUTOCDC_SOFT_DELETES_COLUMN": Condition(
        "Flow {flow} writes column {column} of {target}, in which Sluice flags deleted rows.",
        'Name a column that no flow has, such as `soft_deletes="is_deleted"`, or leave the column out of the flow.',
    ),
    "AUTOCDC_SOFT_DELETES_TYPE": Condition(
        "Column {column}, in which Sluice flags deleted rows of {target}, is declared as {type}.",
        "Declare it as BOOLEAN, or leave it out of the schema.",
    ),
    "AUTOCDC_SNAPSHOTS_NOT_ALONE": Condition(
        "{target} receives snapshots from {flow} and rows from {other_flow}. A snapshot contains all rows of the "
        "target, so each flow would delete the rows of the other.",
        "Remove the other flow. To load a snapshot once and then apply change events, use `@dp.snapshot_flow`.",
    ),
    "AUTOCDC_COLUMNS_TO_UPDATE_TYPE": Condition(
        "`columns_to_update` of AUTO CDC flow {flow} is column {column} of type {type}; expected type array<string>.",
        "Use a column that contains a list of column names.",
    ),
    "AUTOCDC_INCOMPATIBLE_COLUMNS": Condition(
        "Column {column} of {target} has type {other_type} in {other_flow} and type {type} in {flow}, and there is no "
        "common type.",
        "Cast the column in one of the flows.",
    ),
    "AUTOCDC_COLUMN_NOT_DECLARED": Condition(
        "AUTO CDC flow {flow} selects {columns}, which the declared schema of {target} does not contain.",
        "Add the columns to the schema, or exclude them with `except_column_list`, which flows "
        "from snapshots do not have.",
    ),
    "AUTOCDC_COMPUTED_COLUMN": Condition(
        "The schema of {target} declares {columns} as identity columns or columns with a default, which AUTO CDC does "
        "not support.",
        "Compute the columns in the query that the flow reads, or in a view of the target. A column that is "
        "GENERATED ALWAYS AS (an expression) is supported.",
    ),
    "AUTOCDC_PARTITION_KEY_TYPE": Condition(
        "Key column {key} of {target} is a partition column of type {type}. Delta stores partition values as strings, "
        "which does not preserve all values of that type.",
        "Partition {target} by a different column, or cast the key to string in each flow.",
    ),
    "AUTOCDC_KEY_DRIFT": Condition(
        "{target} was built with the keys {stored_keys}, but its flows now declare {keys}.", _FULL_REFRESH
    ),
    "AUTOCDC_SCD_TYPE_DRIFT": Condition(
        "{target} was built as SCD type {stored_scd_type}, but its flows now declare type {scd_type}.", _FULL_REFRESH
    ),
    "AUTOCDC_SOFT_DELETES_DRIFT": Condition(
        "Deleted rows of {target} {stored}, but its flows now declare that they {declared}.", _FULL_REFRESH
    ),
    "AUTOCDC_SEQUENCE_DRIFT": Condition(
        "{target} was built with a sequence of type {stored_type}, but its flows now declare type {type}.",
        _FULL_REFRESH,
    ),
    "AUTOCDC_COLUMN_DRIFT": Condition(
        "Column {column} of {target} was built with type {stored_type}, which cannot store {type}.",
        "Cast the column in the flow, or run a full refresh: `sluice run --full-refresh {target}`. If the new type is "
        "wider, the table property `delta.enableTypeWidening` = `true` lets the column change.",
    ),
    "AUTOCDC_TARGET_NOT_OURS": Condition(
        "Table {target} already exists and was not created by AUTO CDC: it has no column {column}.",
        "Use a different target. If the rows of the table can be deleted, run a full refresh: "
        "`sluice run --full-refresh {target}`.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY": Condition(
        "Micro-batch {batch_id} of AUTO CDC flow {flow} has {null_count} of {row_count} rows with a null key "
        "({counts}). The micro-batch was not written.",
        "Leave these rows out in the query or the snapshots that the flow reads, or drop them with `expect_or_drop` on "
        "the dataset that it reads, or correct them at the source. Then run again.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY": Condition(
        "Micro-batch {batch_id} of AUTO CDC flow {flow} has {null_count} of {row_count} rows with a key that cannot be "
        "stored as a partition value ({counts}). The micro-batch was not written. Delta stores an empty string as "
        "NULL, and replaces bytes that are not valid UTF-8. When clocks of the session's time zone are set back, it "
        "stores the second of two equal hours as the first.",
        "Cluster the target by that key with `cluster_by` instead of partitioning it, or replace these keys in the "
        "source.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE": Condition(
        "Micro-batch {batch_id} of AUTO CDC flow {flow} has {null_count} of {row_count} rows with a null sequence. The "
        "micro-batch was not written.",
        "Filter these rows with `where`, or use an expression in `sequence_by` that is never null.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE": Condition(
        "`sequence_by` of AUTO CDC flow {flow} has type {type}, which is not orderable.",
        "Use a number, a date, a timestamp, a string, or a struct of these types.",
    ),
    "AUTOCDC_FEED_SEQUENCE": Condition(
        "Flow {flow} applies the deletes of a change data feed, and its sequence ({sequence}) does not have the "
        "version of the commit. A full refresh, a RESTORE or an overwrite deletes and inserts a row in one commit. "
        "Both have the same sequence, so the delete wins and the row is missing.",
        "Use `sequence_by` = `_commit_version`, or a struct that has it as its last field.",
    ),
    "AUTOCDC_CONSTRAINT_VIOLATED": Condition(
        "Micro-batch {batch_id} of AUTO CDC flow {flow} has a row that violates a constraint of {target}: {violation} "
        "The micro-batch was not written.",
        "Leave these rows out in the query or the snapshots that the flow reads, correct them in the source, or change "
        "the constraint. Then run again.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.DUPLICATE_KEY_VIOLATION": Condition(
        "A snapshot of flow {flow} has {count} rows with the key {key}. The snapshot was not written.",
        "Provide one row per key, or add a column to `keys` ({keys}) that makes the key unique.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.FIRST_SNAPSHOT_EMPTY": Condition(
        "The `source` function of flow {flow} returned None for the first snapshot.",
        "Return a tuple (DataFrame, version) if the latest version is None. Return None only if there is no newer "
        "snapshot.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION": Condition(
        "The `source` function of flow {flow} returned {found}; expected a snapshot and its version.", _NEXT_SNAPSHOT
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION.NON_INCREASING": Condition(
        "The `source` function of flow {flow} returned version {version}, which is not greater than {latest}, the "
        "latest processed version. The snapshot was not written.",
        "Return the oldest snapshot with a version greater than the function's argument.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION_TYPE": Condition(
        "The `source` function of flow {flow} returned the version {version} of type {type}.",
        "Return a version of type int, str, date or datetime.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_TUPLE_NULL_SNAPSHOT_VERSION": Condition(
        "The `source` function of flow {flow} into {target} returned a snapshot with the version None.",
        "Return a version with each snapshot. If there is no newer snapshot, return None instead of a tuple.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.SNAPSHOT_VERSION_NOT_SORTABLE": Condition(
        "The `source` function of flow {flow} returned version {version} of type {type}, which cannot be compared "
        "with {latest} of type {latest_type}, the latest processed version.",
        "Return versions of one type. To change the type, run a full refresh: `sluice run --full-refresh {target}`.",
    ),
}
