"""Errors that only Spark's ANSI mode raises, and the settings with which such code runs, as on older runtimes."""

from __future__ import annotations

import re

SETTINGS = '`runtime: "16.4"` in the pipeline spec, or `spark.sql.ansi.enabled` = `false` in its `spark_conf`'
"""The settings with which code for older runtimes runs."""

_OF_VALUES = frozenset(
    {
        "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW",
        "CANNOT_PARSE_TIME",
        "CANNOT_PARSE_TIMESTAMP",
        "CAST_INVALID_INPUT",
        "CAST_OVERFLOW",
        "CAST_OVERFLOW_IN_TABLE_INSERT",
        "DATETIME_FIELD_OUT_OF_BOUNDS",
        "DIVIDE_BY_ZERO",
        "INVALID_ARRAY_INDEX",
        "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
        "INVALID_URL",
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "REMAINDER_BY_ZERO",
    }
)
_OF_TYPES = "DATATYPE_MISMATCH"
_OF_TWO_TYPES = "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES"
_TEXT = '"STRING"'
_COMPARES = re.compile(r'Cannot resolve "\(.* (?:=|<=>|<|>|<=|>=) .*\)"')


def hint_of_value(condition: str) -> str:
    """Return a hint for a value without a result in ANSI mode, as a sentence; empty for other conditions.

    Examples:
        >>> hint_of_value("DIVIDE_BY_ZERO")[:56], hint_of_value("TABLE_OR_VIEW_NOT_FOUND")
        (' Runtimes of Databricks before 17 have NULL here: set `r', '')

    Args:
        condition: Spark's name of the condition.
    """
    is_known = condition.partition(".")[0] in _OF_VALUES
    return f" Runtimes of Databricks before 17 have NULL here: set {SETTINGS}." if is_known else ""


def advice_on_types(condition: str, text: str) -> str | None:
    """Return the remedy for an expression that rejects strings, or compares a number with a BOOLEAN, in ANSI mode.

    None for other errors.

    Args:
        condition: Spark's name of the condition.
        text: the text of the error.
    """
    if condition == _OF_TWO_TYPES and '"BOOLEAN"' in text and _COMPARES.search(text):
        return (
            "Compare values of one type. Runtimes of Databricks before 17 take a BOOLEAN that is compared with a "
            f"number for 1 or 0: to have it so, set {SETTINGS}."
        )
    if not condition.startswith(_OF_TYPES) or _TEXT not in text:
        return None
    return (
        "Cast the strings in the query. Runtimes of Databricks before 17 do that by themselves, with NULL for a text "
        f"that is no number: to have it so, set {SETTINGS}."
    )
