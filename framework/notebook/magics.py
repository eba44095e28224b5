"""The magics `%sluice`, `%%sluice`, `%sql` and `%%sql`, and the extension that registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.diagrams.preview import Preview
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.notebook.choices import read_cell_name, read_choices
from framework.notebook.live_display import follow, show_once
from framework.notebook.notebook import Notebook
from framework.notebook.notebook_displays import DeclaredCell
from framework.notebook.notebook_pipeline import NotebookPipeline
from framework.run.update.results import UpdateResult
from framework.running_update import RunningUpdate

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class SluiceMagics:
    """The magics of one notebook."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    def choose(self, line: str) -> NotebookPipeline | None:
        """Choose the notebook's pipeline, which is `pipeline` in its cells: `%sluice pipeline.yml`.

        A file of a pipeline is extended by the notebook's cells. Without a file: `--name`, `--storage`, `--catalog` and
        `--schema`. `--param KEY=VALUE` sets an entry of the configuration. `--remove CELL` removes a cell from the
        pipeline by its name. Without arguments, the graph is displayed.
        """
        if not line.strip():
            return self._notebook.pipeline
        chosen, cells = read_choices(line), self._notebook.cells
        if chosen.remove is None:
            self._notebook.use(NotebookPipeline.of_cells(cells, chosen))
        elif not cells.remove(chosen.remove):
            names = ", ".join(each.title for each in cells) or "none"
            raise UserError("CELL_NOT_FOUND", location=caller_location(), cell=chosen.remove, names=names)
        return None

    def declare(self, line: str, cell: str) -> DeclaredCell:
        """Make the cell a module of the notebook's pipeline: it declares datasets with `dp`.

        A cell with the same name, in `%%sluice orders`, replaces it, as does the same cell if it runs again.
        """
        return self._notebook.declare(cell, read_cell_name(line))

    def sql(self, line: str, cell: str | None = None) -> DeclaredCell | Preview | None:
        """Declare datasets in SQL, or show the rows of a query over the pipeline's datasets; they are `_sqldf`, too."""
        return self._notebook.sql(line if cell is None else cell)


def load(shell: InteractiveShell) -> None:
    """Register the magics in a shell, and bind the names that cells use, such as `pipeline` and `dp`."""
    notebook = Notebook(shell)
    magics = SluiceMagics(notebook)
    register: Any = shell.register_magic_function  # its annotations are those of its decorator
    register(magics.choose, "line", "sluice")
    register(magics.declare, "cell", "sluice")
    register(magics.sql, "line_cell", "sql")
    shell.events.register("pre_run_cell", notebook.before_cell)
    formatters: Any = shell.display_formatter
    formatters.ipython_display_formatter.for_type(RunningUpdate, follow)
    formatters.ipython_display_formatter.for_type(UpdateResult, show_once)
