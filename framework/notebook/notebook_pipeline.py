"""The pipeline of a notebook: its modules are cells, and its updates are displayed while they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self, Unpack

from framework.foundation.errors import GraphErrors
from framework.graph.graph import DataflowGraph
from framework.notebook.cell_modules import CellModules
from framework.notebook.choices import Choices
from framework.notebook.live_display import LiveDisplay
from framework.notebook.notebook_sandbox import NotebookSandbox
from framework.pipeline import Pipeline
from framework.plan.request import RequestOptions
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.definitions import Definitions
from framework.run.update.results import UpdateResult
from framework.running_update import Observer
from framework.views.explanation import Explanation, explain_dataset


class NotebookPipeline(Pipeline):
    """A pipeline whose modules are cells, beside those of its spec if it has one."""

    _cells: CellModules

    @classmethod
    def of_cells(cls, cells: CellModules, chosen: Choices) -> Self:
        """Return the pipeline of a notebook's cells, which follows their changes.

        Args:
            cells: the cells; they extend the pipeline of the spec, if one is chosen.
            chosen: the spec, or else name, storage, catalog and schema; and entries of the configuration.
        """
        parameters = dict(chosen.parameters)
        if chosen.spec is not None:
            pipeline = cls.from_spec(chosen.spec, parameters=parameters, storage=chosen.storage)
        else:
            pipeline = cls(
                name=chosen.name, storage=chosen.storage, catalog=chosen.catalog, schema=chosen.schema,
                configuration=parameters,
            )  # fmt: skip
        pipeline._cells = cells
        return pipeline

    @property
    def graph(self) -> DataflowGraph:
        """The resolved graph of the current cells.

        Raises:
            GraphErrors: all errors of the definitions.
        """
        self._notice_changes()
        return super().graph

    def run(
        self,
        *,
        observers: Sequence[Observer] = (),
        identity: UpdateIdentity | None = None,
        **request: Unpack[RequestOptions],
    ) -> UpdateResult:
        """Update the pipeline's datasets; the cell displays the graph with the states of its datasets meanwhile.

        The arguments and errors are those of `Pipeline.run`.
        """
        with LiveDisplay(lambda: self._graph) as live:
            result = super().run(observers=(*observers, live), identity=identity, **request)
            live.end(result)
        return result

    def explain(self, dataset: str) -> Explanation:
        """Return what the next update does with a dataset and why, with the errors that are foretold; write nothing.

        Raises:
            GraphErrors: all errors of the definitions.
            UserError: DATASET_NOT_FOUND.
        """
        plan = self.plan()
        found = self.graph.dataset(self._complete(dataset))
        name = self._table(dataset).name if found is None else found.name
        return explain_dataset(self.graph, plan, name)

    def sandbox(self, folder: str | Path | None = None) -> NotebookSandbox:
        """Return a sandbox whose updates are displayed while they run; see `Pipeline.sandbox`."""
        return NotebookSandbox(self._spec, self._cells, self._session, folder)

    def load(self, file: str) -> None:
        """Load the cells; errors of queries are found later, when the graph is resolved.

        Args:
            file: the file name of the newest cell, whose faulty declarations are raised, too.

        Raises:
            GraphErrors: the errors of cells that raised, and of declarations.
        """
        declared = self._declared
        if declared.failure is not None:
            raise declared.failure
        faults = [each for each in declared.registry.faults if each.location and each.location.file == file]
        if faults:
            raise GraphErrors(faults)

    @property
    def _declared(self) -> Definitions:
        self._notice_changes()
        return super()._declared

    def _notice_changes(self) -> None:
        """Forget what was loaded if the cells have changed."""
        cells = (*self._cells,)
        if self._modules != cells:
            self._modules = cells
            self._loaded = self._graph = None
