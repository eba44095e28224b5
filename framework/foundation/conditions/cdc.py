"""Conditions of AUTO CDC: contracts, sequences, drift."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_FULL_REFRESH = "Run a full refresh of {target}, which builds it anew: `sluice run --full-refresh {target}`."

CONDITIONS: dict[str, Condition] = {
    "AUTOCDC_EMPTY_KEYS": Condition(
        "AUTO CDC flow {flow} names no key columns.", "Give `keys` the columns that identify a row."
    ),
    "AUTOCDC_DUPLICATE_KEYS": Condition(
        "AUTO CDC flow {flow} names key column {key} more than once.", "Name each column in `keys` once."
    ),
    "AUTOCDC_KEY_TYPE": Condition(
        "Key column {key} of AUTO CDC flow {flow} has type {type}, whose values can't be told apart as keys.",
        "Use key columns of a type that has values and an order: not void, map, variant or interval.",
    ),
    "AUTOCDC_COLUMN_TYPE": Condition(
        "Column {column} of AUTO CDC flow {flow} has type {type}; a Delta table cannot store {part}.",
        "Cast the column in the source, for example to a string, or leave it out with `except_column_list`.",
    ),
    "AUTOCDC_SEQUENCE_TYPE": Condition(
        "`sequence_by` of AUTO CDC flow {flow} has type {type}, which a Delta table cannot store.",
        "Order events by a number, a date, a timestamp, a string without a collation, or a struct of these.",
    ),
    "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA": Condition(
        "`{parameter}` of AUTO CDC flow {flow} names {missing}, not among the columns of its source: {available}.",
        "{advice}",
    ),
    "AUTOCDC_COLUMN_MISPLACED": Condition(
        "`{parameter}` of AUTO CDC flow {flow} names {columns}, {reason}.", "Take it out of the list."
    ),
    "AUTOCDC_AMBIGUOUS_COLUMNS": Condition(
        "The source of AUTO CDC flow {flow} has columns whose names differ in case only, or not at all: {columns}.",
        "Rename them in the source, or leave them out with `except_column_list`.",
    ),
    "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA": Condition(
        "The columns that AUTO CDC flow {flow} selects leave out its key {keys}.",
        "Keep every key column: add it to `column_list`, or take it out of `except_column_list`.",
    ),
    "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST": Condition(
        "AUTO CDC flow {flow} has both `{parameter}` and `{except_parameter}`.", "Give one of the two."
    ),
    "AUTOCDC_RESERVED_COLUMN_NAME_PREFIX_CONFLICT": Condition(
        "Column {column} of AUTO CDC flow {flow} has a name that AUTO CDC keeps for itself.",
        "Rename the column in the source, or leave it out with `except_column_list`.",
    ),
    "AUTOCDC_FILE_METADATA_COLUMN": Condition(
        "Column {column} of AUTO CDC flow {flow} has the name of Spark's file metadata, by which Delta finds deleted "
        "rows; a target with such a column can't be read.",
        "Rename it in the query that the flow reads, such as `col('_metadata').alias('file_metadata')`, or leave it "
        "out with `except_column_list`.",
    ),
    "AUTOCDC_EXPRESSION_INVALID": Condition(
        "`{parameter}` of AUTO CDC flow {flow} can't be resolved against its source: {expression} ({reason}).",
        "Use the source's columns: {available}.",
    ),
    "AUTOCDC_EXPRESSION_NOT_OF_ROW": Condition(
        "`{parameter}` of AUTO CDC flow {flow} is {expression}, which is not a function of the row: {dependency}.",
        "Compute the value in a dataset that the flow reads, so that it is stored with each row, and name its column.",
    ),
    "AUTOCDC_CONDITION_NOT_BOOLEAN": Condition(
        "`{parameter}` of AUTO CDC flow {flow} is {expression} of type {type}, not a condition.",
        "Give an expression that is true or false, such as `operation = 'DELETE'`.",
    ),
    "AUTOCDC_MISSING_SEQUENCE_BY": Condition(
        "AUTO CDC flow {flow} has no `sequence_by`.", "Give the column or expression that orders the events."
    ),
    "AUTOCDC_INCOMPATIBLE_SEQUENCES": Condition(
        "Flows {flow} and {other_flow} of {target} order their events by {type} and {other_type}, "
        "which can't be compared with each other.",
        "Give both `sequence_by` of one type; in a once flow that should come before all events, use `lit(0)`.",
    ),
    "AUTOCDC_DIFFERENT_KEYS": Condition(
        "Flows {flow} and {other_flow} of {target} have different keys: {keys} and {other_keys}.",
        "Give all AUTO CDC flows of one target the same `keys`.",
    ),
    "AUTOCDC_DIFFERENT_SCD_TYPES": Condition(
        "Flows {flow} and {other_flow} of {target} are stored as SCD type {scd_type} and {other_scd_type}.",
        "Give all AUTO CDC flows of one target the same `stored_as_scd_type`.",
    ),
    "AUTOCDC_DIFFERENT_TRACK_HISTORY": Condition(
        "Flows {flow} and {other_flow} of {target} track the history of different columns.",
        "Give all flows of one target the same `track_history_column_list`, or only one of them.",
    ),
    "AUTOCDC_SNAPSHOTS_NOT_ALONE": Condition(
        "{target} is fed from snapshots by {flow} and also by {other_flow}; a snapshot holds all rows, so each "
        "would delete what the other wrote.",
        "Give the target no other flow, or use `@dp.snapshot_flow` for a first load beside change events.",
    ),
    "AUTOCDC_COLUMNS_TO_UPDATE_TYPE": Condition(
        "`columns_to_update` of AUTO CDC flow {flow} is column {column} of type {type}, not a list of names.",
        "Name a column of type array<string>.",
    ),
    "AUTOCDC_INCOMPATIBLE_COLUMNS": Condition(
        "Column {column} of {target} has type {other_type} in {other_flow} and {type} in {flow}, "
        "and no type holds both.",
        "Cast the column in one of the flows.",
    ),
    "AUTOCDC_COLUMN_NOT_DECLARED": Condition(
        "AUTO CDC flow {flow} selects {columns}, not in the schema that {target} was declared with.",
        "Add it to the schema, or leave it out with `except_column_list`.",
    ),
    "AUTOCDC_COMPUTED_COLUMN": Condition(
        "The schema of {target} declares {columns} as generated, as identity or with a default, which AUTO CDC "
        "can't keep.",
        "Compute the column in the query that the flow reads, or in a view of the target.",
    ),
    "AUTOCDC_PARTITION_KEY_TYPE": Condition(
        "Key column {key} of {target} is a partition column of type {type}. Delta stores a partition value as text, "
        "which changes values of that type.",
        "Partition {target} by another column, or cast the key to string in each flow.",
    ),
    "AUTOCDC_KEY_DRIFT": Condition(
        "{target} was built with keys {stored_keys}, and its flows now have keys {keys}.", _FULL_REFRESH
    ),
    "AUTOCDC_SCD_TYPE_DRIFT": Condition(
        "{target} was built as SCD type {stored_scd_type}, and its flows now say {scd_type}.", _FULL_REFRESH
    ),
    "AUTOCDC_SEQUENCE_DRIFT": Condition(
        "{target} was built with a sequence of type {stored_type}, and its flows now have {type}.", _FULL_REFRESH
    ),
    "AUTOCDC_COLUMN_DRIFT": Condition(
        "Column {column} of {target} was built with type {stored_type}, which can't hold {type}.",
        "Cast the column in the flow, or run a full refresh: `sluice run --full-refresh {target}`.",
    ),
    "AUTOCDC_TARGET_NOT_OURS": Condition(
        "{target} exists and was not built by AUTO CDC: it lacks the column {column}.",
        "Choose another target; or, if its rows may go, " + _FULL_REFRESH[0].lower() + _FULL_REFRESH[1:],
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY": Condition(
        "Batch {batch_id} of AUTO CDC flow {flow} has {null_count} row(s) of {row_count} with a null key "
        "({counts}); nothing of the batch was written.",
        "Leave such rows out with `where`, or an expectation on the source, and run again.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY": Condition(
        "Batch {batch_id} of AUTO CDC flow {flow} has {null_count} row(s) of {row_count} with a key that a partition "
        "cannot store ({counts}); nothing of the batch was written. Delta stores an empty text as NULL, and it "
        "replaces bytes that are not valid UTF-8.",
        "Cluster the target by that key (`cluster_by`) instead of partitioning it, or replace such keys in the source.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE": Condition(
        "Batch {batch_id} of AUTO CDC flow {flow} has {null_count} row(s) of {row_count} with a null sequence; "
        "nothing of the batch was written.",
        "Leave such rows out with `where`, or give `sequence_by` an expression that is never null.",
    ),
    "AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE": Condition(
        "`sequence_by` of AUTO CDC flow {flow} has type {type}, whose values have no order.",
        "Order events by a number, a time, a string, or a struct of these.",
    ),
    "AUTOCDC_CONSTRAINT_VIOLATED": Condition(
        "Batch {batch_id} of AUTO CDC flow {flow} has a row that {target} does not take: {violation} "
        "The target is as it was before the batch.",
        "Leave such rows out with `where`, correct them at the source, or change the constraint; then run again.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.DUPLICATE_KEY_VIOLATION": Condition(
        "A snapshot of flow {flow} has {count} rows with the key {key}; nothing of it was written.",
        "Give the snapshot one row a key, or add to `keys` ({keys}) the column that tells its rows apart.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.FIRST_SNAPSHOT_EMPTY": Condition(
        "The `source` function of flow {flow} returned None when it was asked for the first snapshot.",
        "Return a (DataFrame, version) when the latest version is None; return None only when no newer one is there.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION": Condition(
        "The `source` function of flow {flow} returned {found}, not a snapshot and its version.",
        "Return a tuple (DataFrame, version), or None when there is no newer snapshot.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION.NON_INCREASING": Condition(
        "The `source` function of flow {flow} returned version {version}, not after {latest}, the latest one applied; "
        "nothing of it was written.",
        "Return the oldest snapshot whose version is after the one that the function is given.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION_TYPE": Condition(
        "The `source` function of flow {flow} returned the version {version} of type {type}.",
        "Return a version that is an int, a str, a date or a datetime.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_TUPLE_NULL_SNAPSHOT_VERSION": Condition(
        "The `source` function of flow {flow} into {target} returned a snapshot whose version is None.",
        "Return a version with each snapshot, or None in place of both when there is no newer one.",
    ),
    "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.SNAPSHOT_VERSION_NOT_SORTABLE": Condition(
        "The `source` function of flow {flow} returned version {version} of type {type}, which can't be ordered "
        "after {latest} of type {latest_type}, the latest one applied.",
        "Return versions of one type; to change it, run a full refresh: `sluice run --full-refresh {target}`.",
    ),
}
