"""Files of a pipeline as Python modules: notebooks (`.ipynb`, and files that Databricks exports), and SQL files.

In an exported notebook, cells of other kinds are comments: Python would pass over them without a word, and with them
over the datasets of SQL cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from framework.declare.sql.source import SUFFIX as SQL_SUFFIX
from framework.declare.sql.source import ValueOf, sql_module
from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.notebooks import SUFFIX as NOTEBOOK_SUFFIX
from framework.foundation.notebooks import NotebookCell, code_of, notebook_cells

_FIRST_LINES = {".py": "# Databricks notebook source", SQL_SUFFIX: "-- Databricks notebook source"}
_CELL = re.compile(r"(?:#|--) COMMAND -+\s*")
_SQL_CELL = re.compile(r"^-- COMMAND -+[ \t\r]*$", re.MULTILINE)
_MAGIC = re.compile(r"(?:#|--) MAGIC\s+(\S+)(.*)")
_TEXT = frozenset({"%md", "%md-sandbox"})
_ADVICE = {
    "%python": "Delete `# MAGIC %python` and the `# MAGIC` before each line; in a SQL notebook, move it to a module.",
    "%sql": "Move its statements to a SQL file, or declare the dataset in Python, with `spark.sql(…)` as its query.",
    "%run": "Make that notebook a Python module, and import it.",
    "%pip": "Install the package in the environment that runs Sluice, and delete the cell.",
}
_OTHER = "Write the cell in Python, or delete it."


def cell_advice(magic: str) -> str:
    """What to do with a cell of another kind than Python.

    Args:
        magic: its first word, such as `%run`.
    """
    return _ADVICE.get(magic, _OTHER)


def python_source(path: Path, content: bytes, value_of: ValueOf) -> bytes:
    """Return the Python code of a module's file; a line of code has the number of its line in the file.

    Args:
        path: the file: Python, a notebook, or SQL.
        content: its content.
        value_of: returns the value of a parameter of the pipeline, for SQL; None if it has none.

    Raises:
        GraphErrors: a NOTEBOOK_CELL_UNSUPPORTED for each cell of a notebook that is not run; text is left out. An
            error for each faulty statement of SQL.
        UserError: NOTEBOOK_UNREADABLE, SQL_FILE_NOT_UTF8.
    """
    text = _text(path, content)
    if path.suffix != NOTEBOOK_SUFFIX:
        _refuse(_exported_faults(path, text))
        return sql_module(path, _exported_cells(text), value_of) if path.suffix == SQL_SUFFIX else content
    cells = [cell for cell in notebook_cells(path, text) if cell.magic not in _TEXT]
    _refuse(fault for cell in cells for fault in _cell_faults(path, cell))
    codes = [code for cell in cells if (code := cell.code) is not None]
    if any(code.language == "sql" for code in codes):
        return sql_module(path, [("\n".join(code.lines), code.line) for code in codes], value_of)
    return code_of(codes).encode()


def _text(path: Path, content: bytes) -> str:
    """Return the text of a file; refuse SQL of another encoding, which would be other SQL. Python refuses its own."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if path.suffix == SQL_SUFFIX:
            location = SourceLocation(file=str(path), line=1 + content.count(b"\n", 0, error.start))
            raise UserError("SQL_FILE_NOT_UTF8", location=location, path=path) from None
        return content.decode("utf-8-sig", errors="replace")


def _refuse(faults: Iterable[UserError]) -> None:
    found = [*faults]
    if found:
        raise GraphErrors(found)


def _exported_cells(text: str) -> Iterator[tuple[str, int]]:
    """Yield the cells of a SQL notebook that Databricks exports, with their first lines; else the whole text."""
    start = 0
    if text.partition("\n")[0].strip() == _FIRST_LINES[SQL_SUFFIX]:
        for match in _SQL_CELL.finditer(text):
            yield text[start : match.start()], 1 + text.count("\n", 0, start)
            start = match.end()
    yield text[start:], 1 + text.count("\n", 0, start)


def _cell_faults(path: Path, cell: NotebookCell) -> Iterator[UserError]:
    """Yield an error for a cell of another kind than Python, or for each of its lines that Python would not run."""
    code = cell.code
    for place in [cell.first] if code is None else code.commands():
        shown = code or cell
        yield _unsupported(path, shown.line + place, shown.lines[place].strip())


def _exported_faults(path: Path, text: str) -> Iterator[UserError]:
    """Yield an error for each cell of an exported notebook that is in another language; none for other files."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != _FIRST_LINES.get(path.suffix):
        return
    begins = True
    for number, line in enumerate(lines, 1):
        if _CELL.fullmatch(line):
            begins = True
        found = _MAGIC.fullmatch(line.rstrip())
        if found is None or not begins:
            continue
        begins = False
        if found[1] not in _TEXT:
            yield _unsupported(path, number, f"{found[1]}{found[2]}")


def _unsupported(path: Path, line: int, cell: str) -> UserError:
    return UserError(
        "NOTEBOOK_CELL_UNSUPPORTED", location=SourceLocation(file=str(path), line=line), path=path, cell=cell,
        advice=cell_advice(cell.split(maxsplit=1)[0].replace("%%", "%")),
    )  # fmt: skip
