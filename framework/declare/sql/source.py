"""Converts SQL to Python code with the same declarations, on the same lines.

A SQL file, or a SQL cell in a notebook, is thus loaded, checked, run and reported like Python, and errors have the
lines of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.declare.specs import ViolationAction
from framework.declare.sql.module_code import ModuleCode
from framework.declare.sql.namespaces import OF_PIPELINE
from framework.declare.sql.statements import SqlCall, SqlQuery

SUFFIX = ".sql"

ValueOf = Callable[[str], str | None]

_IMPORTS = (
    "from framework import pipelines as __dp; from framework.declare.sql.script import create_function as "
    "__create_function; from framework.declare.sql.python_functions import create_python_function as "
    "__create_python_function; from framework.declare.sql.script import declare_variable as __declare_variable; "
    "from framework.declare.sql.labels import expecting as __expecting, labelled as __labelled; "
    "from framework.declare.sql.namespaces import rows as __rows; "
)
"""Names that user code does not have: a notebook may have Python beside its SQL."""

_FUNCTIONS = {
    "create_function": "__create_function",
    "create_python_function": "__create_python_function",
    "declare_variable": "__declare_variable",
    "set_configuration": "spark.conf.set",
}
"""The Python text of calls that are not functions of `framework.pipelines`."""

_DECORATORS = {
    ViolationAction.WARN: "expect",
    ViolationAction.DROP: "expect_or_drop",
    ViolationAction.FAIL: "expect_or_fail",
}


def write_calls(code: ModuleCode, calls: Iterable[SqlCall], line: int) -> None:
    """Write calls: each on the line of its statement, and its constraints and query on their own lines.

    Args:
        code: the code of the module so far.
        calls: the calls for statements from this line on.
        line: the first line of their text.
    """
    code.write(line, _IMPORTS)
    for call in calls:
        _write(code, call)


def _write(code: ModuleCode, call: SqlCall) -> None:
    """Write a call, with its query as the decorated function and its expectations as decorators of it."""
    named = (f"{name}={value!r}" for name, value in call.arguments)
    arguments = ", ".join((*(["spark"] if call.on_session else []), *map(repr, call.positional), *named))
    code.write(call.line, f"{_FUNCTIONS.get(call.function, '__dp.' + call.function)}({arguments})")
    if call.query is not None:
        code.append("(__expecting(" if call.expectations else "(")
        for each in call.expectations:
            code.write(each.line, f"__dp.{_DECORATORS[each.action]}({each.name!r}, {each.condition!r}), ")
        code.append("query=" if call.expectations else "")
        code.write(call.query.line, f"lambda: {_rows(call.query)}{')' if call.expectations else ''})")
    code.append("; ")


def _rows(query: SqlQuery) -> str:
    rows, used = f"spark.sql({query.text!r})", query.namespace
    if used != OF_PIPELINE:
        rows = f"__rows(spark, {query.text!r}, {used.catalog!r}, {used.schema!r})"
    return f"__labelled({rows}, {query.labels!r})" if query.labels else rows
