"""Notebooks as modules: `.ipynb` files, and `.py` files that Databricks exports.

In the latter, cells of other kinds are comments: Python would pass over them without a word, and with them over the
datasets of SQL cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.notebooks import SUFFIX, NotebookCell, code_of, notebook_cells

_FIRST_LINE = "# Databricks notebook source"
_CELL = re.compile(r"# COMMAND -+\s*")
_MAGIC = re.compile(r"# MAGIC\s+(\S+)(.*)")
_TEXT = frozenset({"%md", "%md-sandbox"})
_ADVICE = {
    "%python": "Delete `# MAGIC %python` and the `# MAGIC` before each line: then it is a Python cell.",
    "%sql": "Declare the dataset in Python, with `spark.sql(…)` as the query of the function.",
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


def python_source(path: Path, content: bytes) -> bytes:
    """Return the Python code of a module's file; a line of code has the number of its line in the file.

    Args:
        path: the file.
        content: its content.

    Raises:
        GraphErrors: a NOTEBOOK_CELL_UNSUPPORTED for each cell of a notebook that is not run; text is left out.
        UserError: NOTEBOOK_UNREADABLE.
    """
    text = content.decode("utf-8-sig", errors="replace")
    if path.suffix != SUFFIX:
        faults = [*_exported_faults(path, text)]
        if faults:
            raise GraphErrors(faults)
        return content
    cells = [cell for cell in notebook_cells(path, text) if cell.magic not in _TEXT]
    faults = [fault for cell in cells for fault in _cell_faults(path, cell)]
    if faults:
        raise GraphErrors(faults)
    return code_of(code for cell in cells if (code := cell.code) is not None).encode()


def _cell_faults(path: Path, cell: NotebookCell) -> Iterator[UserError]:
    """Yield an error for a cell of another kind than Python, or for each of its lines that Python would not run."""
    code = cell.code
    for place in [cell.first] if code is None else code.commands():
        shown = code or cell
        yield _unsupported(path, shown.line + place, shown.lines[place].strip())


def _exported_faults(path: Path, text: str) -> Iterator[UserError]:
    """Yield an error for each cell of an exported notebook that Python would not run; none for other files."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != _FIRST_LINE:
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
