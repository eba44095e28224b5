"""The sandbox of a pipeline: given inputs, real updates, and the tables after them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from framework.graph.graph import DataflowGraph
from framework.plan.steps import Plan
from framework.run.update.results import UpdateResult
from framework.sandbox.expectations import Expectations
from framework.sandbox.isolation import IsolatedPipeline, MakePipeline
from framework.sandbox.sandbox_clock import SandboxClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Sandbox:
    """A pipeline with a storage of its own and given inputs; its updates are real ones.

    Args:
        make: makes the pipeline.
        folder: the folder of its storage and inputs; None for a temporary one, which `close` removes.

    Attributes:
        clock: the time of its updates.
        last: the result of the last update; None before the first one.
    """

    def __init__(self, make: MakePipeline, folder: str | Path | None = None) -> None:
        self._make = make
        self._is_own_folder = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-sandbox-")) if folder is None else Path(folder)
        self.clock = SandboxClock()
        self.last: UpdateResult | None = None

    @property
    def pipeline(self) -> IsolatedPipeline:
        """The pipeline of the sandbox."""
        raise NotImplementedError

    @property
    def graph(self) -> DataflowGraph:
        """The graph of the last plan or update."""
        return self.pipeline.graph

    @property
    def storage(self) -> str:
        """The folder of checkpoints, events and tables."""
        return str(self.folder / "storage")

    def given(
        self,
        source: str,
        rows: object = (),
        *,
        schema: str | StructType | None = None,
        real: bool = False,
        **options: object,
    ) -> None:
        """Give the rows of an input from the start."""
        raise NotImplementedError

    def arrives(self, source: str, rows: object, *, schema: str | StructType | None = None, **options: object) -> None:
        """Append one more batch to an input: a file, a commit, or messages."""
        raise NotImplementedError

    def update(
        self,
        *datasets: str,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        reset_checkpoints: Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    ) -> UpdateResult:
        """Update datasets and all that they need; all datasets if none is named."""
        raise NotImplementedError

    def plan(self, *datasets: str, **request: Any) -> Plan:
        """Return the steps of an update with the same arguments."""
        raise NotImplementedError

    def rows(self, dataset: str, *columns: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        raise NotImplementedError

    def table(self, dataset: str) -> DataFrame:
        """Return the rows of a table as a DataFrame."""
        raise NotImplementedError

    def twin(self, *, without: str) -> Sandbox:
        """Return a sandbox in a new folder with the same given inputs, as given and arrived so far, except one."""
        raise NotImplementedError

    def batches(self, source: str) -> tuple[list[dict[str, Any]], ...]:
        """Return the rows of an input by batch, as given and arrived so far."""
        raise NotImplementedError

    def expect(self, dataset: str, rows: object, *, only: Sequence[str] | None = None, ordered: bool = False) -> None:
        """Check the rows of a dataset; see `Expectations.expect`."""
        Expectations(self).expect(dataset, rows, only=only, ordered=ordered)

    def expect_quality(
        self, dataset: str, expectation: str, *, passed: int | None = None, failed: int | None = None
    ) -> None:
        """Check the counts of an expectation in the last update; see `Expectations.expect_quality`."""
        Expectations(self).expect_quality(dataset, expectation, passed=passed, failed=failed)

    def expect_quarantined(self, dataset: str, *, reason: str | None = None, rows: object = None) -> None:
        """Check the quarantined rows of a dataset; see `Expectations.expect_quarantined`."""
        Expectations(self).expect_quarantined(dataset, reason=reason, rows=rows)

    def expect_plan(self, steps: Mapping[str, str] | Sequence[str]) -> None:
        """Check the plan of the next update; see `Expectations.expect_plan`."""
        Expectations(self).expect_plan(steps)

    def expect_events(
        self,
        type: str,
        *,
        dataset: str | None = None,
        level: str | None = None,
        message: str | None = None,
        count: int | None = None,
    ) -> None:
        """Check the events of the last update; see `Expectations.expect_events`."""
        Expectations(self).expect_events(type, dataset=dataset, level=level, message=message, count=count)

    def expect_error(
        self, condition: str, *, match: str | None = None, dataset: str | None = None
    ) -> AbstractContextManager[None]:
        """Check that the block raises an error; see `Expectations.expect_error`."""
        return Expectations(self).expect_error(condition, match=match, dataset=dataset)

    def expect_any_order(self, dataset: str, *, source: str, permutations: int = 20, seed: int | None = None) -> None:
        """Check that the order of a source's rows does not change a dataset; see `Expectations.expect_any_order`."""
        Expectations(self).expect_any_order(dataset, source=source, permutations=permutations, seed=seed)

    def code(self, where: str | Path) -> AbstractContextManager[None]:
        """Run the modules of another release in the block: `git:TAG`, `git:TAG:folder`, or a folder."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the session, and remove the folder if it is temporary."""
        if self._is_own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.close()
