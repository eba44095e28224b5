"""`CREATE FUNCTION`, as a function of the pipeline's session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.declare.registered_functions import current_functions
from framework.declare.sql.cursor import Cursor
from framework.declare.sql.python_functions import python_function_call
from framework.declare.sql.statements import SqlCall, SqlScope
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BEFORE = (("OR", "REPLACE"), ("OR", "REFRESH"), ("TEMPORARY",), ("TEMP",))


def creates_function(cursor: Cursor) -> bool:
    """Read `CREATE … FUNCTION` if it comes next, and say whether it did."""
    ahead = cursor.copy()
    if not ahead.accept("CREATE"):
        return False
    any(ahead.accept(*words) for words in _BEFORE[:2])
    any(ahead.accept(*words) for words in _BEFORE[2:])
    if not ahead.accept("FUNCTION"):
        return False
    ahead.accept("IF", "NOT", "EXISTS")
    cursor.go_to(ahead)
    return True


def function_call(cursor: Cursor, line: int, scope: SqlScope) -> SqlCall:
    """Return the call for a statement, from the name of its function on.

    Args:
        cursor: the tokens from the name on.
        line: the line of the statement.
        scope: what earlier statements set.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    name = ".".join(scope.namespace.full(cursor.parts()))
    if not cursor.is_at_symbol("("):
        cursor.fail("`(`")
    rest = cursor.copy()
    while not rest.at_end():
        if rest.is_at("LANGUAGE", "PYTHON"):
            return python_function_call(name, cursor, line)
        rest.skip()
    return SqlCall(function="create_function", line=line, positional=(name, cursor.until()), on_session=True)


def create_function(spark: SparkSession, name: str, definition: str) -> None:
    """Create a function that queries find by its name, and by its name with the schema and the catalog before it.

    Args:
        spark: the session of the pipeline.
        name: its name, as far as the statement and USE say.
        definition: what follows on its name.

    Raises:
        UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
    """
    functions = current_functions()
    assert functions is not None  # the code of a pipeline runs
    functions.create(spark, name, definition, caller_location())
