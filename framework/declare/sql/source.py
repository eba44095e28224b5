"""SQL files as modules: Python code that declares what their statements declare, on the same lines.

So a SQL file is loaded, checked, run and reported as a Python module is, and errors have the lines of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from framework.declare.specs import ViolationAction
from framework.declare.sql.namespaces import OF_PIPELINE
from framework.declare.sql.script import SqlScript
from framework.declare.sql.statements import SqlCall, SqlQuery
from framework.foundation.errors import GraphErrors

SUFFIX = ".sql"

ValueOf = Callable[[str], str | None]

_IMPORTS = (
    "from framework import pipelines as dp; from framework.declare.sql.labels import expecting, labelled; "
    "from framework.declare.sql.namespaces import rows; "
)
_DECORATORS = {
    ViolationAction.WARN: "expect",
    ViolationAction.DROP: "expect_or_drop",
    ViolationAction.FAIL: "expect_or_fail",
}


def sql_module(path: Path, cells: Iterable[tuple[str, int]], value_of: ValueOf) -> bytes:
    """Return the Python code of a SQL file; its calls have the lines of the statements, constraints and queries.

    Args:
        path: the file.
        cells: its texts, each with its first line: more than one for a notebook. The last statement of a text needs
            no semicolon.
        value_of: returns the value of a parameter of the pipeline; None if it has none.

    Raises:
        GraphErrors: an error for each faulty statement.
    """
    script = SqlScript(file=str(path), value_of=value_of)
    calls = [call for text, line in cells for call in script.calls(text, line)]
    if script.faults:
        raise GraphErrors(script.faults)
    code = _Code(_IMPORTS)
    for call in calls:
        _write(code, call)
    return code.text().encode()


class _Code:
    """Python code that is written line by line."""

    def __init__(self, text: str) -> None:
        self._parts, self._line = [text], 1

    def write(self, line: int, code: str) -> None:
        """Add code on a line, or on the last one if that is below; breaks of lines must be allowed there."""
        self.append("\n" * (line - self._line) + code)
        self._line = max(line, self._line)

    def append(self, code: str) -> None:
        """Add code on the last line; its strings are literals of one line."""
        self._parts.append(code)

    def text(self) -> str:
        """Return the code."""
        return "".join(self._parts)


def _write(code: _Code, call: SqlCall) -> None:
    """Write a call, with its query as the decorated function and its expectations as decorators of it."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments)
    code.write(call.line, f"dp.{call.function}({arguments})")
    if call.query is not None:
        code.append("(expecting(" if call.expectations else "(")
        for each in call.expectations:
            code.write(each.line, f"dp.{_DECORATORS[each.action]}({each.name!r}, {each.condition!r}), ")
        code.append("query=" if call.expectations else "")
        code.write(call.query.line, f"lambda: {_rows(call.query)}{')' if call.expectations else ''})")
    code.append("; ")


def _rows(query: SqlQuery) -> str:
    rows, used = f"spark.sql({query.text!r})", query.namespace
    if used != OF_PIPELINE:
        rows = f"rows(spark, {query.text!r}, {used.catalog!r}, {used.schema!r})"
    return f"labelled({rows}, {query.labels!r})" if query.labels else rows
