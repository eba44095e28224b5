"""Conditions of ingestions: their declaration, the tables that they copy, and the commands of `sluice ingest`."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

_RESYNC = "Read the table again: `sluice ingest resync {table}`."

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
    "INGESTION_SOFT_DELETES_OF_HISTORY": Condition(
        "{function}(): `{argument}` is set for a table with SCD_TYPE_2, whose history has deleted rows by itself.",
        "Remove it, or use SCD_TYPE_1.",
    ),
    "INGESTION_SOFT_DELETES_COLUMN": Condition(
        "{table} has a column {column}, in which its copy would flag deleted rows.",
        'Name a column that the table does not have, such as `soft_deletes`: "is_deleted", or exclude the column.',
    ),
    "INGESTION_TARGET_TWICE": Condition(
        "The tables {tables} would have the same copy, {target}.",
        "Give one of them another `destination_table` or `destination_schema`, or exclude it.",
    ),
    "INGESTION_TABLE_TWICE": Condition(
        "The objects of the ingestion `{name}` contain the table {table} twice, with {targets}.",
        "Remove one of them, or add the table to `exclude` of its schema. A table may have two copies of other names, "
        "one with SCD_TYPE_1 and one with SCD_TYPE_2, if both have the same `text_columns`.",
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
    "INGESTION_KEY_OF_NAMES": Condition(
        "The key of the table {table} has columns whose text is the present name of an object: {columns}. If the "
        "object is renamed or dropped, that text changes without an entry in the log, and the copy keeps the row.",
        "Store the number of the object at the source, such as `{statement}`, or exclude the table.",
    ),
    "INGESTION_KEY_EXCLUDED": Condition(
        "The table_configuration of {table} excludes `{column}`, which is a part of its key.",
        "Remove it from `exclude_columns`.",
    ),
    "INGESTION_COLUMN_UNKNOWN": Condition(
        "The table {table} has no column `{column}`, which its table_configuration names.{hint}",
        "Correct the name, in the letter case that the database has.",
    ),
    "INGESTION_COLUMNS_CASED": Condition(
        "The table {table} has columns whose names differ in letter case only: {columns}. Spark and Delta "
        "take them for one.",
        "Rename one of them at the source, such as `{statement}`. Or list all but one of them in `exclude_columns` of "
        "its table_configuration, without a `row_filter`: that reads all columns.",
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
        "The table {table} was taken out of {members}: changes from then on are not in the log, "
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
    "INGESTION_COLUMNS_REFRESHED": Condition(
        "The columns of the table {table} changed at the source: {change}. An update reads all its rows again, as its "
        "`auto_full_refresh_policy` says.",
        "No action is needed.",
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
}
