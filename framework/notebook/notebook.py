"""One notebook: its shell, its pipeline, the cells that are modules, and the names that cells use."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from types import FrameType
from typing import TYPE_CHECKING, Any

from framework import pipelines
from framework.declare.modules.pipeline_imports import PipelineImports
from framework.declare.sql.module_code import ModuleCode
from framework.declare.sql.script import SqlScript, only_shows
from framework.declare.sql.source import write_calls
from framework.declare.sql_tokens import UnclosedTextError, statements
from framework.declare.workspace.dbutils import DBUTILS
from framework.declare.workspace.surroundings import Surroundings, found_surroundings, use_in_cells
from framework.diagrams.preview import Preview
from framework.foundation.errors import GraphErrors
from framework.notebook.cell_modules import CellModule, CellModules
from framework.notebook.choices import Choices
from framework.notebook.notebook_displays import DeclaredCell, show, show_html
from framework.notebook.notebook_pipeline import NotebookPipeline

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell

_SESSION = "spark"
_SHOWN_ROWS = 100


class Notebook:
    """The state of a notebook.

    Args:
        shell: the shell that runs its cells.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.cells = CellModules()
        self.widgets: dict[str, str] = {}
        self._cell: ExecutionInfo | None = None
        self._session: object = None
        self._surroundings: tuple[object, Surroundings] | None = None
        self.pipeline = NotebookPipeline.of_cells(self.cells, Choices())
        self._bind()

    def use(self, pipeline: NotebookPipeline) -> None:
        """Use another pipeline with the same cells, in place of the last one."""
        self.pipeline = pipeline
        self._bind()

    def before_cell(self, info: ExecutionInfo) -> None:
        """Bind `spark` for a cell that uses it; Spark starts with the first one that does."""
        self._cell = info
        names: dict[str, Any] = self.shell.user_ns
        is_ours = names.get(_SESSION) is self._session
        if (_SESSION not in names or is_ours) and re.search(rf"\b{_SESSION}\b", str(info.raw_cell)):
            self._session = names[_SESSION] = self.pipeline.spark

    def declare(self, body: str, name: str | None) -> DeclaredCell:
        """Make the running cell a module of the pipeline.

        Raises:
            GraphErrors: the errors of the cell; its last text without errors stays.
        """
        file, lines = self._place()
        blank = len(list(takewhile(lambda line: not line.strip(), body.split("\n"))))  # which the shell removes

        def code() -> str:
            return "\n" * (lines + blank) + str(self.shell.transform_cell(body))

        return self._add(file, code, name, self.shell.user_ns)

    def sql(self, text: str, name: str | None = None) -> DeclaredCell | Preview | None:
        """Declare what SQL statements declare, and return the rows of the last one that shows rows.

        Raises:
            GraphErrors: the errors of the statements.
            UserError: the errors of the query.
        """
        file, lines = self._place()
        declares, query = _split(text)
        namespace: dict[str, Any] = {"__name__": "__main__"}
        code = partial(_code_of_sql, text, file, lines)
        declared = self._add(file, code, name, namespace) if declares else None
        if query is None:
            return declared
        if declared is not None:
            show(declared)
        rows = Preview(self.pipeline.sql(query), _SHOWN_ROWS)
        self.shell.user_ns["_sqldf"] = rows
        return rows

    def _add(self, file: str, code: Callable[[], str], name: str | None, namespace: dict[str, Any]) -> DeclaredCell:
        number = self.shell.compile.format_code_name(file)
        title = name or (" ".join(number) if number is not None else "the cell")
        cell = CellModule(
            title=title, key=name or self._id(), file=file, code=code, namespace=namespace, widgets=self.widgets
        )
        replaced = self.cells.add(cell)
        is_kept = False
        try:
            self.pipeline.load(file)
            is_kept = True
        except GraphErrors as error:
            is_kept = cell.is_loaded and not _is_from(error, file)  # another cell has failed
            raise
        finally:
            if not is_kept:
                self.cells.undo(cell, replaced)
        repeated = self.cells.drop_repeated(cell)
        return DeclaredCell(title=cell.title, datasets=cell.declared, replaced=tuple(each.title for each in repeated))

    def _place(self) -> tuple[str, int]:
        """Return the file name of the running cell's code, and the number of lines up to its magic."""
        raw = str(self._cell.raw_cell) if self._cell is not None else ""
        lines = raw.split("\n")
        magic = next((place for place, line in enumerate(lines) if line.lstrip().startswith("%")), 0)
        file = self._file() or str(self.shell.compile.cache(raw, self.shell.execution_count, raw_code=raw))
        # Errors show the lines as written, not the call of the magic into which the shell has converted them.
        linecache.cache[file] = (len(raw), None, [f"{line}\n" for line in lines], file)
        return file, magic + 1

    def _file(self) -> str | None:
        """Return the generated file name of the running cell, whose code calls the magic."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and self.shell.compile.format_code_name(frame.f_code.co_filename) is None:
            frame = frame.f_back
        return None if frame is None else frame.f_code.co_filename

    def _id(self) -> str | None:
        """Return the id that the front end has given to the running cell; None if it has not."""
        found = getattr(self._cell, "cell_id", None)
        return None if found is None else f"id {found}"

    def _bind(self) -> None:
        """Bind the names that cells use, beside `spark`; names that the notebook has bound itself stay."""
        names: dict[str, Any] = self.shell.user_ns
        names["pipeline"] = self.pipeline
        names["display"] = show
        for name, value in (("dp", pipelines), ("dbutils", DBUTILS), ("displayHTML", show_html)):
            names.setdefault(name, value)
        use_in_cells(self._around)

    def _around(self) -> Surroundings:
        """Return the surroundings of code in plain cells: the pipeline's session, parameters and secrets."""
        if self._surroundings is None or self._surroundings[0] is not self.pipeline:
            made = PipelineImports((), self.pipeline.spark, self.pipeline.spec).surroundings
            self._surroundings = (self.pipeline, replace(made, widgets=self.widgets))
        return self._surroundings[1]


def _split(text: str) -> tuple[bool, str | None]:
    """Return whether a statement declares something, and the last statement that shows rows; None without one."""
    try:
        parts = [text[found[0].start : found[-1].end] for found in statements(text)]
        queries = [part for part in parts if only_shows(part)]
    except UnclosedTextError:
        return True, None  # reported with its line when the statements are read
    return len(queries) < len(parts), queries[-1] if queries else None


def _code_of_sql(text: str, file: str, lines: int) -> str:
    """Return SQL as Python code with the same declarations; called while the pipeline loads its modules.

    Raises:
        GraphErrors: the faults of statements.
    """
    around = found_surroundings()
    values = {} if around is None else dict(around.parameters)
    script, code = SqlScript(file=file, value_of=values.get), ModuleCode()
    write_calls(code, script.calls(text, 1 + lines), 1 + lines)
    if script.faults:
        raise GraphErrors(script.faults)
    return code.text()


def _is_from(errors: GraphErrors, file: str) -> bool:
    """Whether one of several errors is at a line of a file."""
    return any(each.location is not None and each.location.file == file for each in errors.errors)
