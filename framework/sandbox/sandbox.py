"""The sandbox of a pipeline: given inputs, real updates, and the tables after them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from pyspark.sql.types import StructType

from framework.declare.modules.loader import Module
from framework.declare.pipeline_spec import PipelineSpec
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.graph.rules import did_you_mean
from framework.plan.request import RequestOptions
from framework.run.pipeline_session import PipelineSession
from framework.run.update.definitions import request_of
from framework.run.update.results import UpdateResult, UpdateState
from framework.run.update.update import Update
from framework.sandbox.crashes import Crashes
from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.expectations.expectations import Expectations
from framework.sandbox.given_source import Batch
from framework.sandbox.inputs import Inputs
from framework.sandbox.isolation import IsolatedPipeline, isolated_spec
from framework.sandbox.releases import SandboxPlan, release_folder
from framework.sandbox.rows import Rows
from framework.sandbox.sandbox_clock import SandboxClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FileOptions(TypedDict, total=False):
    """How the rows of a batch become a file.

    Args:
        file: the path of the file below the folder of the input, such as `date=2026-01-31/orders.csv`.
        content: the content of the file, in place of rows.
    """

    file: str
    content: str | bytes


class Sandbox(Expectations):
    """A pipeline with a storage of its own and given inputs; its updates are real ones.

    Args:
        spec: the pipeline's spec.
        modules: its modules given in Python.
        session: its session, in whose JVM the sandbox has another one.
        folder: the folder of its storage and inputs; None for a temporary one, which `close` removes.

    Attributes:
        clock: the time of its updates.
        crash: kills its updates.
        last: the result of the last update; None before the first one.
        differences: how the differences of `expect` are printed: width, number of rows, colour.
        compared: the datasets whose rows were compared.
    """

    def __init__(
        self, spec: PipelineSpec, modules: Sequence[Module], session: PipelineSession, folder: str | Path | None = None
    ) -> None:
        self._of = spec, modules, session
        self._is_own_folder = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-sandbox-") if folder is None else folder).resolve()
        self.clock = SandboxClock(lambda: str(self.pipeline.spark.conf.get("spark.sql.session.timeZone")))
        self.crash = Crashes(self.folder, Path(self.storage), self._restart)
        self.last: UpdateResult | None = None
        self.differences = DifferenceFormat()
        self.compared: set[QualifiedName] = set()
        self.inputs = Inputs(self.folder / "inputs")
        self.pipeline = IsolatedPipeline(
            spec=isolated_spec(spec, self.storage), modules=modules, session=session.sibling(spec), inputs=self.inputs,
            clock=self.clock,
        )  # fmt: skip

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
        source: str | Path,
        rows: object = (),
        *,
        schema: str | StructType | None = None,
        real: bool = False,
        **file: Unpack[FileOptions],
    ) -> None:
        """Give the rows of an input from the start.

        Args:
            source: the input as the code names it, or the end of its name: a dataset, another table, a path, a topic,
                a table of a database.
            rows: tuples, dicts, a text table, the `Path` of a CSV or JSON file, or a DataFrame; missing columns are
                NULL.
            schema: the columns; default: those of the read or of the dataset, or else those of the rows.
            real: whether the real input is read; the test then gives no rows.
            **file: how the rows become a file.

        Raises:
            UserError: TEST_INPUT_GIVEN_TWICE, and the errors of rows that can't be read.
        """
        batch = None if real else _batch(rows, schema, file)
        self.inputs.give(str(source), batch, now=self._now())

    def arrives(
        self,
        source: str | Path,
        rows: object = (),
        *,
        schema: str | StructType | None = None,
        **file: Unpack[FileOptions],
    ) -> None:
        """Append one more batch to an input: a file, a commit, or messages; the arguments are those of `given`.

        Raises:
            UserError: TEST_INPUT_REAL, and the errors of rows that can't be read.
        """
        self.inputs.arrive(str(source), _batch(rows, schema, file), now=self._now())

    def update(
        self,
        *datasets: str,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        reset_checkpoints: Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    ) -> UpdateResult:
        """Update datasets and all that they read; all datasets if none is named.

        Args:
            datasets: the names of datasets.
            full_refresh: datasets to clear and recompute.
            full_refresh_all: whether all datasets are cleared and recomputed.
            reset_checkpoints: flows that start with a new checkpoint, as of `Pipeline.run`.

        Raises:
            GraphErrors: the errors of the definitions, and TEST_INPUT_NOT_GIVEN of each input that is read.
            RequestErrors: TEST_INPUT_UNUSED of each given input that nothing reads.
            SluiceError: the error of the first flow that failed.
        """
        update = self._prepared(
            datasets, full_refresh=full_refresh, full_refresh_all=full_refresh_all, reset_checkpoints=reset_checkpoints
        )
        self.last = self._run(update)
        self.clock.date_storage(self.storage)
        for flow in self.last.flows:
            if flow.error is not None:
                raise flow.error
        assert self.last.state is UpdateState.COMPLETED, f"the update ended as {self.last.state.value}"
        return self.last

    def _run(self, update: Update) -> UpdateResult:
        """Run an update; the sandbox of a notebook displays it meanwhile."""
        return self.crash.run(update)

    def plan(self, *datasets: str, **request: Any) -> SandboxPlan:
        """Return the steps of an update with the same arguments, with the errors that are certain, `breaks`.

        Raises:
            SluiceError: as of `update`.
        """
        update = self._prepared(datasets, **request)
        return SandboxPlan.of(update.plan(), update.graph, self.pipeline.names())

    def _prepared(self, datasets: Sequence[str], **request: Unpack[RequestOptions]) -> Update:
        spec = self.pipeline.definitions.spec
        full = tuple(str(self.dataset(name)) for name in request.get("full_refresh", ()))
        request["full_refresh"] = full
        named = [*datasets, *request.get("refresh", ()), *(full if datasets else ())]
        only = tuple(dict.fromkeys(self.dataset(name) for name in named))
        return self.pipeline.prepared(request_of(spec, **request), only)

    def dataset(self, name: str) -> QualifiedName:
        """Return the full name of a declared dataset by its name, or by the end of it.

        Raises:
            UserError: DATASET_NOT_FOUND; or the failure of a module that may declare it.
        """
        known, spec = self.pipeline.names(), self.pipeline.spec
        full = QualifiedName.parse(name, catalog=spec.catalog, schema=spec.schema)
        if full in known:
            return full
        near = [each for each in known if str(each).endswith(f".{name.lower()}")]
        if len(near) != 1:
            failure = self.pipeline.definitions.failure
            if failure is not None:  # its module may declare the dataset
                raise failure
            raise UserError("DATASET_NOT_FOUND", dataset=full, hint=did_you_mean(full, known))
        return near[0]

    def rows(self, dataset: str, *columns: str) -> list[dict[str, Any]]:
        """Return the rows of a table.

        Args:
            dataset: its name.
            columns: the columns; all if none is named.

        Raises:
            UserError: DATASET_NOT_FOUND.
            OperationError: DATASET_NOT_MATERIALIZED before its first update.
        """
        frame = self.table(dataset)
        return [row.asDict() for row in (frame.select(*columns) if columns else frame).collect()]

    def table(self, dataset: str) -> DataFrame:
        """Return the rows of a table, or of a sink, as a DataFrame.

        Raises:
            UserError: DATASET_NOT_FOUND.
            OperationError: DATASET_NOT_MATERIALIZED before its first update.
        """
        return self.pipeline.table(self.dataset(dataset))

    def twin(self, folder: str | Path | None = None) -> Sandbox:
        """Return another sandbox of the pipeline, without inputs and without a storage.

        Args:
            folder: its folder; None for a temporary one.
        """
        spec, modules, session = self._of
        return Sandbox(spec, modules, session, folder)

    def _now(self) -> float:
        return self.clock.now().timestamp()

    @contextmanager
    def code(self, where: str | Path) -> Iterator[None]:
        """Run the spec and the modules of another release in the block, on the same storage and inputs.

        Args:
            where: `git:TAG` or any other commit of the repository of the spec file; `git:TAG:folder` if the spec was in
                that folder then; or a folder with a spec file of the same name.

        Raises:
            UserError: TEST_RELEASE_WITHOUT_FILE, TEST_RELEASE_NO_GIT, TEST_RELEASE_NOT_FOUND,
                TEST_RELEASE_WITHOUT_SPEC.
        """
        present = self.pipeline
        self.pipeline = present.of_release(release_folder(where, present.spec.file, self.folder / "releases"))
        try:
            yield
        finally:
            self.pipeline.close()
            self.pipeline = present.restarted()

    def _restart(self) -> None:
        self.pipeline = self.pipeline.restarted()

    def close(self) -> None:
        """Release the session, and remove the folder if it is temporary."""
        self.pipeline.close()
        if self._is_own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.close()


def _batch(rows: object, schema: str | StructType | None, file: FileOptions) -> Batch:
    content = file.get("content")
    columns = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert columns is None or isinstance(columns, StructType)
    return Batch(
        value=_kept(rows),
        schema=columns,
        file=file.get("file"),
        content=content.encode() if isinstance(content, str) else content,
    )


def _kept(rows: object) -> object:
    """Return rows that later changes of the test's own values do not change; they are written at the first read."""
    if isinstance(rows, Iterator | list | tuple | set):
        return [copy(row) for row in rows]
    return Rows.of(rows)
