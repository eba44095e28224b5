"""Jupyter notebooks (`.ipynb`): their code cells, each with its line in the file.

Jupyter, Databricks and editors write each line of code on its own line of the file, so tracebacks and errors refer to
the line of the file.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

SUFFIX = ".ipynb"

_COMMANDS = ("%", "!")
_MAGIC = "%"
_MODULE = "%%sluice"
_TEST = "test"
_LANGUAGES = ("python", "sql")
_FORMAT = 4
_SOURCE = '"source": ['
_DATABRICKS = "application/vnd.databricks.v1+notebook"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookCell:
    """A cell with code.

    Args:
        line: the line of the file with the first line of code, from 1.
        lines: its code, without line ends.
        language: the language of its notebook: `python` or `sql`.
        tags: the tags that its editor has given it.
    """

    line: int
    lines: tuple[str, ...]
    language: str
    tags: tuple[str, ...] = ()

    @property
    def is_test(self) -> bool:
        """Whether the cell is a test, which is not a part of the notebook's code."""
        return _TEST in self.tags

    @property
    def magic(self) -> str | None:
        """The notebook command at the start of the cell, such as `%sql`; None if there is none."""
        words = self.lines[self.first].split()
        return words[0] if words and words[0].startswith(_COMMANDS) else None

    @property
    def first(self) -> int:
        """The index of the first line that is not empty; 0 if all are empty."""
        return next((place for place, line in enumerate(self.lines) if line.strip()), 0)

    @property
    def code(self) -> NotebookCell | None:
        """The cell without a line that only names the notebook's language; None if the cell is another command."""
        if self.magic not in {_MAGIC + self.language, _MODULE}:
            return self if self.magic is None else None
        lines = ("", *self.lines[self.first + 1 :])
        return NotebookCell(line=self.line + self.first, lines=lines, language=self.language)

    def commands(self) -> Iterator[int]:
        """Yield the indexes of lines in a Python cell that are notebook commands, such as `!ls`."""
        if self.language != "python":
            return
        try:
            ast.parse("\n".join(self.lines))
        except SyntaxError:
            yield from (place for place, line in enumerate(self.lines) if line.lstrip().startswith(_COMMANDS))


def notebook_cells(path: Path, text: str) -> tuple[NotebookCell, ...]:
    """Return the code cells in order.

    If the file does not have one line of code per line, lines are counted over the code of all cells.

    Args:
        path: the file.
        text: its content.

    Raises:
        UserError: NOTEBOOK_UNREADABLE.
    """
    notebook = _read(path, text)
    cells = [(cell.get("cell_type") == "code", _lines(cell.get("source", ()))) for cell in notebook.get("cells", ())]
    places = _places(text.split("\n"), [lines for _, lines in cells]) or _counted(cells)
    language = _language(notebook)
    tags = [_tags(cell) for cell in notebook.get("cells", ())]
    return tuple(
        NotebookCell(line=place, lines=tuple(lines), language=language, tags=tagged)
        for place, (is_code, lines), tagged in zip(places, cells, tags, strict=True)
        if is_code and lines
    )


def _tags(cell: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, (cell.get("metadata") or {}).get("tags") or ()))


def python_of(path: Path, text: str) -> str:
    """Return the Python code of a notebook; empty if its language is not Python.

    Raises:
        UserError: NOTEBOOK_UNREADABLE.
    """
    cells = notebook_cells(path, text)
    return code_of(
        code for cell in cells if cell.language == "python" and not cell.is_test and (code := cell.code) is not None
    )


def code_of(cells: Iterable[NotebookCell]) -> str:
    """Return the code of cells as one text that preserves line numbers."""
    found: list[str] = []
    for cell in cells:
        found += [""] * (cell.line - 1 - len(found))
        found += cell.lines
    return "\n".join([*found, ""])


def _read(path: Path, text: str) -> dict[str, Any]:
    """Parse a notebook, and check its format and language."""
    refusal = partial(UserError, "NOTEBOOK_UNREADABLE", location=SourceLocation(file=str(path), line=1), path=path)
    try:
        notebook: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(problem=f"it is not valid JSON ({error})") from None
    is_known = isinstance(notebook, dict) and notebook.get("nbformat") == _FORMAT
    if not is_known or not all(isinstance(cell, dict) for cell in notebook.get("cells", ())):
        raise refusal(problem="it is not in version 4 of Jupyter's format")
    found: dict[str, Any] = notebook
    if _language(found) not in _LANGUAGES:
        raise refusal(problem=f"its language is {_language(found)}")
    return found


def _language(notebook: dict[str, Any]) -> str:
    """Return the language of a notebook, in lower case; Python if it is not specified."""
    metadata = notebook.get("metadata") or {}
    said = (("language_info", "name"), ("kernelspec", "language"), (_DATABRICKS, "language"))
    named = [str((metadata.get(part) or {}).get(name) or "python").lower() for part, name in said]
    return next((name for name in named if name != "python"), "python")


def _lines(source: str | Sequence[str]) -> list[str]:
    """Return the lines of a cell, which is a text or a list of texts."""
    text = source if isinstance(source, str) else "".join(source)
    return text.removesuffix("\n").split("\n") if text else []


def _places(file: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int] | None:
    """Return the line of the file at which each cell begins; None if the file has another layout."""
    found, begin = [], 0
    for lines in cells:
        place = next(_blocks(file, begin, lines), None) if lines else begin
        if place is None:
            return None
        found.append(place + 1)
        begin = place + len(lines)
    return found


def _blocks(file: Sequence[str], begin: int, lines: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of the file after `"source": [` at which these lines follow as JSON texts."""
    for place in range(begin, len(file)):
        if file[place].strip() == _SOURCE:
            block = [_text(each) for each in file[place + 1 : place + 1 + len(lines)]]
            if block == list(lines):
                yield place + 1


def _text(line: str) -> str | None:
    """Return the text on a line of JSON, without its line end; None if there is none."""
    try:
        value = json.loads(line.strip().removesuffix(","))
    except ValueError:
        return None
    return value.removesuffix("\n") if isinstance(value, str) else None


def _counted(cells: Sequence[tuple[bool, Sequence[str]]]) -> list[int]:
    """Return the line at which each cell begins if the code of all cells is joined to one text."""
    found, line = [], 1
    for is_code, lines in cells:
        found.append(line)
        line += len(lines) if is_code else 0
    return found
