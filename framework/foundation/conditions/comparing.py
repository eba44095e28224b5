"""Conditions of comparisons."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
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
