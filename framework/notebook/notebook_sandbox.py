"""The sandbox of a notebook: it follows the cells, and displays its updates."""

from __future__ import annotations

from dataclasses import replace

from framework.diagrams.preview import Preview
from framework.notebook.live_display import LiveDisplay
from framework.run.update.results import UpdateResult
from framework.run.update.update import Update
from framework.sandbox.sandbox import Sandbox
from framework.views.explanation import Explanation, explain_dataset


class NotebookSandbox(Sandbox):
    """A sandbox whose updates run the current cells, and are displayed while they run."""

    def preview(self, dataset: str, limit: int = 10) -> Preview:
        """Return the first rows of a table: a DataFrame that a notebook displays.

        Raises:
            UserError: DATASET_NOT_FOUND.
            OperationError: DATASET_NOT_MATERIALIZED before its first update.
        """
        return Preview(self.table(dataset), limit)

    def explain(self, dataset: str) -> Explanation:
        """Return what the next update does with a dataset and why, with the errors that are foretold.

        Raises:
            SluiceError: as of `plan`.
        """
        plan = self.plan(dataset)
        return explain_dataset(self.graph, plan, self.dataset(dataset))

    def _run(self, update: Update) -> UpdateResult:
        with LiveDisplay(lambda: update.graph) as live:
            result = super()._run(replace(update, observers=(*update.observers, live)))
            live.end(result)
        return result

    def __repr__(self) -> str:
        return f"Sandbox(storage={self.storage!r})" if self.last is None else repr(self.last)

    def _repr_html_(self) -> str | None:
        """Return the result of the last update for notebooks; None before it."""
        return None if self.last is None else self.last._repr_html_()
