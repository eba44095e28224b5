"""`CREATE FUNCTION … LANGUAGE PYTHON`, as a function of the pipeline's session with a Python body."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framework.declare.session.registered_functions import current_functions
from framework.declare.sql.cursor import Cursor, Keywords
from framework.declare.sql.statements import SqlCall
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITHOUT_EFFECT: tuple[Keywords, ...] = (
    ("LANGUAGE", "PYTHON"),
    ("DETERMINISTIC",),
    ("NOT", "DETERMINISTIC"),
    ("CONTAINS", "SQL"),
    ("READS", "SQL", "DATA"),
)
_CLAUSES = (*_WITHOUT_EFFECT, ("RETURNS",), ("COMMENT",), ("ENVIRONMENT",), ("PARAMETER",), ("HANDLER",), ("AS",))
_NOT_HERE = ("PARAMETER", "HANDLER", "TABLE")
_PYTHON = "Write the function in a Python module, and register it with `spark.udf.register` or `spark.udtf.register`."
_RETURNS = " RETURNS "


def python_function_call(name: str, cursor: Cursor, line: int) -> SqlCall:
    """Return the call for a function with a Python body.

    Args:
        name: its name.
        cursor: the tokens from its parameters on.
        line: the line of the statement.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    parameters = _parameters(cursor)
    returns, body, body_line = "", "", line
    while not cursor.at_end():
        _refuse(cursor)
        if cursor.accept("RETURNS"):
            _refuse(cursor)
            returns = cursor.until(_CLAUSES)
        elif cursor.accept("ENVIRONMENT"):  # packages of the service; this process uses its own environment
            cursor.inside()
        elif cursor.accept("COMMENT"):
            cursor.string()
        elif cursor.accept("AS"):
            body_line, body = cursor.line, cursor.string()
        elif not any(cursor.accept(*words) for words in _WITHOUT_EFFECT):
            cursor.fail("RETURNS, LANGUAGE PYTHON, or AS and the body between `$$`")
    if not (returns and body.strip()):
        cursor.fail("RETURNS and a type" if body.strip() else "AS and the body between `$$`")
    positional = (name, f"{', '.join(parameters)}{_RETURNS}{returns}", body, str(body_line))
    return SqlCall(function="create_python_function", line=line, positional=positional, on_session=True)


def _parameters(cursor: Cursor) -> list[str]:
    """Read the names of the parameters; Python gets the values in the same order."""
    if cursor.accept("(", ")"):
        return []
    found = []
    for item in cursor.inside().items():
        found.append(item.identifier())
        item.part([("DEFAULT",), ("COMMENT",)])
        if item.is_at("DEFAULT"):
            item.refuse("DEFAULT of a parameter with LANGUAGE PYTHON", _PYTHON)
    return found


def _refuse(cursor: Cursor) -> None:
    for word in _NOT_HERE:
        if cursor.is_at(word):
            cursor.refuse(f"{word} of a function with LANGUAGE PYTHON", _PYTHON)


def create_python_function(spark: SparkSession, name: str, signature: str, body: str, line: str) -> None:
    """Create a function with a Python body, which queries can call like a SQL function.

    Args:
        spark: the session of the pipeline.
        name: its name, with the parts that the statement and USE set.
        signature: the names of its parameters, and its SQL return type.
        body: its statements.
        line: the line of the file where they begin.

    Raises:
        UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
        SyntaxError: the body is not valid.
    """
    functions, location = current_functions(), caller_location()
    assert functions is not None  # only the code of a running pipeline gets here
    parameters, _, returns = signature.partition(_RETURNS)
    file = location.file if location is not None else "<sql>"
    functions.create_python(spark, name, _compiled(parameters, body, file, int(line)), returns)


def _compiled(parameters: str, body: str, file: str, line: int) -> Callable[..., object]:
    """Return the function of a body, with the line numbers of its file; indented strings in it are unchanged."""
    lines = body.rstrip().split("\n")
    blank = next(index for index, text in enumerate(lines) if text.strip())
    lines = lines[blank:]
    # A block may have any indentation, so strings of several lines keep theirs.
    head = ["if True:"] if lines[0][:1].isspace() else []
    first = line + blank - len(head) - 1
    made = ast.parse(f"def body({parameters}): pass")
    definition = made.body[0]
    assert isinstance(definition, ast.FunctionDef)
    try:
        block = ast.parse("\n".join([*head, *lines])).body
    except SyntaxError as error:
        error.filename, error.lineno = file, (error.lineno or 1) + first
        raise
    definition.body = block[0].body if head and isinstance(block[0], ast.If) else block
    namespace: dict[str, Any] = {"__name__": "sluice_sql_functions"}
    exec(compile(ast.increment_lineno(ast.fix_missing_locations(made), first), file, "exec"), namespace)  # noqa: S102 - the user's code
    function: Callable[..., object] = namespace["body"]
    return function
