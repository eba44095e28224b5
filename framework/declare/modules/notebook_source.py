"""Converts pipeline files to Python modules: notebooks (`.ipynb`, and files that Databricks exports), and SQL files.

The cells of a notebook become one module, each on its own lines: Python as it is, SQL as calls with the same
declarations, `%run` as a call. Cells without declarations are skipped with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from framework.declare.modules.notebook_cells import MODULE, PYTHON, SQL, Cell, cells_of
from framework.declare.modules.notebook_definitions import definitions_in
from framework.declare.modules.packages import look_up_packages
from framework.declare.registry import add_note
from framework.declare.sql.module_code import ModuleCode
from framework.declare.sql.script import SqlScript
from framework.declare.sql.source import SUFFIX as SQL_SUFFIX
from framework.declare.sql.source import ValueOf, write_calls
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.locations import SourceLocation

_TEXT = frozenset({"md", "md-sandbox"})
_PACKAGES = frozenset({"pip", "!pip"})
_OF_SLUICE = frozenset({"sluice"})
_WITHOUT_EFFECT = frozenset(
    {"sh", "fs", "bash", "!", "autoreload", "config", "load_ext", "matplotlib", "restart_python", "tensorboard"}
)
"""Commands that declare nothing and define no Python name."""

_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"'#]+)"""
_ARGUMENT = re.compile(rf"\$(?P<key>\w+)\s*=\s*(?P<value>{_VALUE})")
_RUN = re.compile(rf"(?P<name>[^#$]*)(?P<given>(?:\$\w+\s*=\s*{_VALUE}\s*)*)(?:#.*)?")
"""The arguments of `%run`: a notebook, and values of the parameters that it reads, `$name="value"`."""
_ARGUMENTS = "framework.declare.workspace.surroundings"

_NAMES_OF_CELLS = "from framework import pipelines as dp"
"""What `%load_ext framework` binds for declarations, beside the globals of every module."""

_ADVICE = {
    "%python": "Delete the line `%python`.",
    "%sql": "Move its statements to a SQL file, or declare the dataset in Python, with `spark.sql(…)` as its query.",
    "%run": "Make that notebook a Python module, and import it.",
    "%pip": "Install the package in the environment that runs Sluice, and delete the cell.",
}
_OTHER = "Write the cell in Python or SQL, or delete it."


def cell_advice(magic: str) -> str:
    """Return the advice for a cell that can't be run.

    Args:
        magic: the first word of the cell, such as `%scala`.
    """
    return _ADVICE.get(magic, _OTHER)


def python_source(path: Path, content: bytes, value_of: ValueOf) -> bytes:
    """Return the Python code of a module's file, with the line numbers of the file.

    Args:
        path: the file: Python, a notebook, or SQL.
        content: its content.
        value_of: returns the value of a parameter of the pipeline, for SQL; None if it has no value.

    Raises:
        GraphErrors: a NOTEBOOK_CELL_UNSUPPORTED for each notebook cell that can't be run, NOTEBOOK_PACKAGES_MISSING for
            packages that it installs, an error for each faulty SQL statement.
        UserError: NOTEBOOK_UNREADABLE, SQL_FILE_NOT_UTF8.
    """
    code, faults = read_source(path, content, value_of)
    if faults:
        raise GraphErrors(faults)
    return code


def read_source(path: Path, content: bytes, value_of: ValueOf) -> tuple[bytes, list[SluiceError]]:
    """Return the Python code of a file as `python_source` does, but without its faulty parts; return the faults, too.

    Raises:
        UserError: NOTEBOOK_UNREADABLE, SQL_FILE_NOT_UTF8.
    """
    text = _text(path, content)
    cells = cells_of(path, text)
    if cells is None:
        if path.suffix != SQL_SUFFIX:
            return content, []
        cells = (Cell(kind=SQL, line=1, lines=tuple(text.split("\n")), shown=""),)
    code = _NotebookCode(path, value_of)
    return code.of(cells).encode(), code.faults


class _NotebookCode:
    """The code of one file.

    Args:
        path: the file.
        value_of: returns the value of a parameter of the pipeline; None if it has no value.
    """

    def __init__(self, path: Path, value_of: ValueOf) -> None:
        self._path = path
        self._script = SqlScript(file=str(path), value_of=value_of)
        self._lines: dict[int, str] = {}
        self.faults: list[SluiceError] = []

    def of(self, cells: Iterable[Cell]) -> str:
        """Return the code of cells, in order; gather their faults."""
        cells = [*cells]
        if any(cell.kind == MODULE for cell in cells):
            self._lines[1] = _NAMES_OF_CELLS  # no cell begins on the first line of a notebook's file
            cells = [replace(cell, lines=definitions_in(cell.lines)) if cell.kind == PYTHON else cell for cell in cells]
            last = {cell.name: cell for cell in cells}  # as in the notebook, a cell replaces the last one of its name
            cells = [cell for cell in cells if not cell.name or last[cell.name] is cell]
        for cell in cells:
            self._add(cell)
        packages = [cell for cell in cells if cell.kind in _PACKAGES]
        self.faults += look_up_packages(self._path, packages)
        self.faults += self._script.faults
        return "".join(f"{self._lines.get(number, '')}\n" for number in range(1, max(self._lines, default=0) + 1))

    def _add(self, cell: Cell) -> None:
        adders: dict[str, Callable[[Cell], None]] = {
            PYTHON: self._add_python, MODULE: self._add_python, SQL: self._add_sql, "run": self._add_run
        }  # fmt: skip
        if cell.kind in adders:
            adders[cell.kind](cell)
        elif cell.kind in _WITHOUT_EFFECT:
            add_note(
                UserError("NOTEBOOK_CELL_PASSED_OVER", location=self._place(cell), path=self._path, cell=cell.shown)
            )
        elif cell.kind not in _TEXT | _PACKAGES | _OF_SLUICE:
            self.faults.append(self._unsupported(cell))

    def _add_python(self, cell: Cell) -> None:
        self._lines.update(enumerate(cell.lines, cell.line))

    def _add_sql(self, cell: Cell) -> None:
        code = ModuleCode()
        write_calls(code, self._script.calls("\n".join(cell.lines), cell.line), cell.line)
        self._lines.update(
            (number, line) for number, line in enumerate(code.text().split("\n"), 1) if number >= cell.line
        )

    def _add_run(self, cell: Cell) -> None:
        """Add the code that runs another notebook, which shares the names of this one in both directions."""
        found = _RUN.fullmatch(cell.lines[0])
        name = "" if found is None else found["name"].strip().strip("\"'")
        if found is None or not name:
            self.faults.append(self._unsupported(cell))
            return
        given = {each["key"]: each["value"].strip("\"'") for each in _ARGUMENT.finditer(found["given"])}
        around = f"with __import__({_ARGUMENTS!r}, fromlist=['*']).more_arguments(**{given!r}): " if given else ""
        place = self._lines.get(cell.line, "")
        indent = place[: len(place) - len(place.lstrip())]
        self._lines[cell.line] = f"{indent}{around}__loader__.run_notebook({name!r}, {str(self._path)!r}, globals())"

    def _place(self, cell: Cell) -> SourceLocation:
        return SourceLocation(file=str(self._path), line=cell.line)

    def _unsupported(self, cell: Cell) -> UserError:
        word = cell.shown.split(maxsplit=1)[0].replace("%%", "%")
        return UserError(
            "NOTEBOOK_CELL_UNSUPPORTED",
            location=self._place(cell),
            path=self._path,
            cell=cell.shown,
            advice=cell_advice(word),
        )


def _text(path: Path, content: bytes) -> str:
    """Return the text of a file; refuse SQL that is not UTF-8. For Python, the compiler checks the encoding."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if path.suffix == SQL_SUFFIX:
            location = SourceLocation(file=str(path), line=1 + content.count(b"\n", 0, error.start))
            raise UserError("SQL_FILE_NOT_UTF8", location=location, path=path) from None
        return content.decode("utf-8-sig", errors="replace")
