"""Notebooks that Databricks exports as `.py` files: Python cells, and cells of other kinds in comments.

Python would pass over the comments without a word, and with them over the datasets of SQL cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

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


def notebook_faults(path: Path, text: str) -> Iterator[UserError]:
    """Yield an error for each cell of a notebook that Python would not run; none for text, and for other files.

    Args:
        path: the file.
        text: its content.
    """
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
            yield UserError(
                "NOTEBOOK_CELL_UNSUPPORTED", location=SourceLocation(file=str(path), line=number), path=path,
                cell=f"{found[1]}{found[2]}", advice=cell_advice(found[1]),
            )  # fmt: skip
