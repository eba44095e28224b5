"""The magics `%sluice`, `%%sluice`, `%sql` and `%%sql`, and the extension that registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic_arguments import MagicArgumentParser

from framework.diagrams.preview import Preview
from framework.foundation.errors import UserError
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
        given = _CHOICES.parse_argstring(line)
        cells = self._notebook.cells
        if not line.strip():
            return self._notebook.pipeline
        if given.remove is None:
            settings = {name: value for name, value in vars(given).items() if name not in {"param", "remove"}}
            self._notebook.use(NotebookPipeline.of_cells(cells, parameters=_parameters(given.param), **settings))
        elif not cells.remove(given.remove):
            names = ", ".join(each.title for each in cells) or "none"
            raise UserError("CELL_NOT_FOUND", cell=given.remove, names=names)
        return None

    def declare(self, line: str, cell: str) -> DeclaredCell:
        """Make the cell a module of the notebook's pipeline: it declares datasets with `dp`.

        A cell with the same name, in `%%sluice orders`, replaces it, as does the same cell if it runs again.
        """
        return self._notebook.declare(cell, _CELL.parse_argstring(line).name)

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


def _choices() -> MagicArgumentParser:
    parser = MagicArgumentParser("%sluice")
    parser.add_argument("spec", nargs="?")
    parser.add_argument("--name", default="notebook")
    parser.add_argument("--storage")
    parser.add_argument("--catalog", default="main")
    parser.add_argument("--schema", default="default")
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--remove")
    return parser


def _cell() -> MagicArgumentParser:
    parser = MagicArgumentParser("%%sluice")
    parser.add_argument("name", nargs="?")
    return parser


_CHOICES, _CELL = _choices(), _cell()


def _parameters(texts: list[str]) -> dict[str, str]:
    """Return the values of `KEY=VALUE` texts.

    Raises:
        UserError: PARAMETER_INVALID.
    """
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UserError("PARAMETER_INVALID", text=text)
        found[key] = value
    return found
