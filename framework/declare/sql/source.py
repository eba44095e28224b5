"""SQL files as modules: Python code that declares what their statements declare, on the same lines.

So a SQL file is loaded, checked, run and reported as a Python module is, and errors have the lines of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from framework.declare.specs import ViolationAction
from framework.declare.sql.script import SqlScript
from framework.declare.sql.statements import SqlCall, SqlQuery
from framework.foundation.errors import GraphErrors

SUFFIX = ".sql"

_FIRST_LINE = "-- Databricks notebook source"
_CELL = re.compile(r"^-- COMMAND -+[ \t]*$", re.MULTILINE)
_IMPORTS = "from framework import pipelines as dp; from framework.declare.sql.labels import labelled; "
_DECORATORS = {
    ViolationAction.WARN: "expect",
    ViolationAction.DROP: "expect_or_drop",
    ViolationAction.FAIL: "expect_or_fail",
}


def python_code(path: Path, content: bytes, value_of: Callable[[str], str | None]) -> bytes:
    """Return the Python code of a SQL file; its calls have the lines of the statements, constraints and queries.

    Args:
        path: the file.
        content: its content.
        value_of: returns the value of a parameter of the pipeline; None if it has none.

    Raises:
        GraphErrors: an error for each faulty statement.
    """
    text = content.decode("utf-8-sig", errors="replace")
    script = SqlScript(file=str(path), value_of=value_of)
    calls = [call for cell, line in _cells(text) for call in script.calls(cell, line)]
    if script.faults:
        raise GraphErrors(script.faults)
    code = _Code(_IMPORTS)
    for call in calls:
        _write(code, call)
    return code.text.encode()


def _cells(text: str) -> Iterator[tuple[str, int]]:
    """Yield the cells of a notebook that Databricks exports, with their first lines; else the whole text.

    The last statement of a cell needs no semicolon.
    """
    start = 0
    if text.lstrip().startswith(_FIRST_LINE):
        for match in _CELL.finditer(text):
            yield text[start : match.start()], 1 + text.count("\n", 0, start)
            start = match.end()
    yield text[start:], 1 + text.count("\n", 0, start)


class _Code:
    """Python code that is written line by line."""

    def __init__(self, text: str) -> None:
        self.text = text

    def write(self, line: int, code: str) -> None:
        """Add code on a line, or on the last one if that is below; breaks of lines must be allowed there."""
        missing = line - 1 - self.text.count("\n")
        self.text += "\n" * missing + code


def _write(code: _Code, call: SqlCall) -> None:
    """Write a call, with its query as the decorated function and its expectations as decorators of it."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments)
    code.write(call.line, f"dp.{call.function}({arguments})")
    if call.query is not None:
        code.text += "("
        for each in call.expectations:
            code.write(each.line, f"dp.{_DECORATORS[each.action]}({each.name!r}, {each.condition!r})(")
        code.write(call.query.line, f"lambda: {_rows(call.query)}{')' * len(call.expectations)})")
    code.text += "; "


def _rows(query: SqlQuery) -> str:
    rows = f"spark.sql({query.text!r})"
    return f"labelled({rows}, {query.labels!r})" if query.labels else rows
