"""SQL expressions over one row: read from texts and Columns, and checked at declaration."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from framework.declare.interface.call import Call
from framework.engine.plans.columns import NotSqlError, identifier_parts, is_classic, quote_column, render_column

if TYPE_CHECKING:
    from pyspark.sql import Column

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def is_column(value: object) -> bool:
    """Whether the value is a PySpark Column, of a classic or a Connect session."""
    from pyspark.sql import Column

    return isinstance(value, Column)


def row_expression(call: Call, argument: str, value: str | Column) -> str:
    """Return the SQL text of an expression over one row.

    Raises:
        UserError: INVALID_ARGUMENT.* if it is neither text nor a Column, has no SQL text, is not valid SQL,
            or needs more than one row (an aggregate, a window, a generator, a subquery).
    """
    if isinstance(value, str):
        text = call.text(argument, value)
    elif is_column(value):
        text = _column_text(call, argument, value)
    else:
        call.wrong_type(argument, value, "a SQL expression (str) or a Column")
    fault = _fault(text)
    if fault is not None:
        raise call.fault("INVALID_ARGUMENT.EXPRESSION", argument=argument, text=text, reason=fault)
    return text


def optional_row_expression(call: Call, argument: str, value: str | Column | None) -> str | None:
    """Return the text as `row_expression` does, or None."""
    return None if value is None else row_expression(call, argument, value)


def column_names(call: Call, argument: str, value: object) -> tuple[str, ...]:
    """Return the column names in a list of texts and Columns, in its order.

    Raises:
        UserError: AUTOCDC_NON_COLUMN_IDENTIFIER for a Column that is an expression,
            AUTOCDC_MULTIPART_COLUMN_IDENTIFIER for a nested or qualified one, INVALID_ARGUMENT.* for the rest.
    """
    if not isinstance(value, list | tuple):
        call.wrong_type(argument, value, "a list of column names or Columns")
    names = tuple(_column_name(call, f"{argument}[{index}]", item) for index, item in enumerate(value))
    call.refuse_repeats(argument, names)
    return names


def _column_name(call: Call, argument: str, value: object) -> str:
    if isinstance(value, str):
        return call.column_name(argument, call.text(argument, value))
    if not is_column(value):
        call.wrong_type(argument, value, "a column name or a Column")
    parts = identifier_parts(value) if is_classic(value) else None
    if parts is None:
        raise call.fault("AUTOCDC_NON_COLUMN_IDENTIFIER", argument=argument, expression=str(value))
    if len(parts) > 1:
        name = ".".join(map(quote_column, parts))
        raise call.fault("AUTOCDC_MULTIPART_COLUMN_IDENTIFIER", argument=argument, columnName=name, nameParts=parts)
    return parts[0]


def _column_text(call: Call, argument: str, column: Any) -> str:
    if not is_classic(column):
        raise call.fault("INVALID_ARGUMENT.NOT_SQL", argument=argument, reason="it belongs to a Spark Connect session")
    try:
        return render_column(column)
    except NotSqlError as error:
        raise call.fault("INVALID_ARGUMENT.NOT_SQL", argument=argument, reason=str(error)) from None


def _fault(text: str) -> str | None:
    """Return why a text is not an expression over one row, or None; not checked without a JVM."""
    from framework.engine.sessions.session import has_session

    if not has_session() or _IDENTIFIER.fullmatch(text):
        return None
    return _parsed_fault(text)


@functools.lru_cache(maxsize=4096)
def _parsed_fault(text: str) -> str | None:
    """Cached part of `_fault`: a thousand generated flows share a few texts, and each check calls the JVM."""
    from pyspark.errors import ParseException

    from framework.engine.plans.parsed_expressions import part_beyond_one_row

    try:
        found = part_beyond_one_row(text)
    except ParseException as error:
        return str(error).strip().split("\n", maxsplit=1)[0]
    return found and f"{found} needs more than one row"
