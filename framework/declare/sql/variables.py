"""`DECLARE VARIABLE`, as a variable of the pipeline's session, whose value queries have when they are analysed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.declare.registered_functions import current_functions
from framework.declare.sql.cursor import Cursor
from framework.declare.sql.statements import SqlCall
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def variable_call(cursor: Cursor, line: int) -> SqlCall:
    """Return the call for a statement, after its DECLARE.

    Args:
        cursor: the tokens after DECLARE.
        line: the line of the statement.

    Raises:
        UserError: PARSE_SYNTAX_ERROR.
    """
    cursor.accept("OR", "REPLACE")
    cursor.accept("VARIABLE") or cursor.accept("VAR")
    name = cursor.parts()[-1]
    return SqlCall(function="declare_variable", line=line, positional=(name, cursor.until()), on_session=True)


def declare_variable(spark: SparkSession, name: str, definition: str) -> None:
    """Declare a variable of the pipeline.

    Args:
        spark: the session of the pipeline.
        name: its name.
        definition: its type and its value.

    Raises:
        UserError: VARIABLE_DECLARED_TWICE.
    """
    functions = current_functions()
    assert functions is not None  # the code of a pipeline runs
    functions.declare(spark, name, definition, caller_location())
