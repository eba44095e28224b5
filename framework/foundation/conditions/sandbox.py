"""Conditions of sandboxes: given and expected rows, and what tests state."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "TEST_ROW_NOT_A_ROW": Condition(
        "{value} is not a list of rows.",
        "Write a list of tuples or dicts, a text table with a header, the Path of a CSV or JSON file, or a DataFrame.",
    ),
    "TEST_ROW_TEXT_INVALID": Condition(
        "{place} of the text table is invalid: {cause}",
        "Write one row a line, with `|` between the cells, and put a cell that contains `|` or `#` in quotes.",
    ),
    "TEST_ROW_FILE_NOT_FOUND": Condition("There is no file {path} with rows.", "Correct the path."),
    "TEST_ROW_FILE_INVALID": Condition(
        "{path} has no readable rows: {cause}",
        "Rows are read from .csv and .tsv files with a header, and from .json, .jsonl and .ndjson files with objects.",
    ),
    "TEST_ROW_LENGTH": Condition(
        "{place} has {count}, but there {columns}.",
        "Write a value for each column, None for NULL, or write the row as a dict.",
    ),
    "TEST_ROW_COLUMN_UNKNOWN": Condition(
        "{place} has a column {column!r}, which is not among the columns {columns}.{hint}",
        "Correct the name, or give the rows a schema that has the column.",
    ),
    "TEST_ROW_VALUE": Condition(
        "{place}, column {column}: {value} is no {type}: {cause}", "Write a value of the type {type}."
    ),
    "TEST_ROW_TYPES": Condition(
        "The column {column} has values of the types {first} and {second}, which have no common type.",
        "Write values of one type, or give the rows a schema.",
    ),
}
