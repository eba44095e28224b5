"""The pipeline of a sandbox: its own storage, given inputs, no effect outside of its folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.declare.modules.loader import Module
from framework.declare.pipeline_spec import PipelineSpec, load_spec
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.declare.workspace.surroundings import updating
from framework.engine.files.storage import open_storage
from framework.engine.sessions.frozen_time import freeze_time
from framework.foundation.errors import GraphErrors, OperationError, RequestErrors, SluiceError, UserError
from framework.foundation.files.storage import Storage
from framework.foundation.locations import caller_location
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.planner import foretold
from framework.plan.request import UpdateRequest
from framework.recovery.quarantine.quarantine import Quarantine
from framework.run.flows.state.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.pipeline_session import PipelineSession
from framework.run.tables.catalog_entries import ISOLATED
from framework.run.tables.table_record import StorageLayout
from framework.run.tables.table_store import TableStore
from framework.run.update.definitions import Definitions
from framework.run.update.settings import UpdateSettings
from framework.run.update.update import Update
from framework.sandbox import test_session
from framework.sandbox.given_datasets import column_types, only_feeding
from framework.sandbox.inputs import Inputs
from framework.sandbox.releases import local_file
from framework.sandbox.sandbox_clock import SandboxClock
from framework.session.query_log import quiet_query_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class IsolatedPipeline:
    """The pipeline of a sandbox.

    Args:
        spec: the spec of the pipeline, with the storage and the settings of the sandbox.
        modules: modules given in Python.
        session: the session of the sandbox.
        inputs: takes the reads of its code.
        clock: the time of its updates.
    """

    def __init__(
        self, *, spec: PipelineSpec, modules: Sequence[Module], session: PipelineSession, inputs: Inputs,
        clock: SandboxClock,
    ) -> None:  # fmt: skip
        self.spec = spec
        self._modules, self._session, self._inputs, self._clock = modules, session, inputs, clock
        self._loaded: Definitions | None = None
        self._loaded_from: tuple[Module, ...] = ()
        self._graph: DataflowGraph | None = None
        self.storage: Storage = open_storage(spec.storage, None)

    def of_release(self, folder: Path) -> IsolatedPipeline:
        """Return the pipeline with the spec and the modules of another release, on the same storage and inputs.

        Args:
            folder: the folder of the spec in that release.
        """
        assert self.spec.file is not None, "a pipeline made in Python has no releases"
        found = load_spec(folder / Path(self.spec.file).name, local_file(folder, self.spec.file))
        spec = isolated_spec(found, self.spec.storage)
        session = self._session.sibling(self.spec)
        return IsolatedPipeline(spec=spec, modules=(), session=session, inputs=self._inputs, clock=self._clock)

    def restarted(self) -> IsolatedPipeline:
        """Return the pipeline as the next process has it: its modules are loaded again."""
        session = self._session.sibling(self.spec)
        return IsolatedPipeline(
            spec=self.spec, modules=self._modules, session=session, inputs=self._inputs, clock=self._clock
        )

    @property
    def spark(self) -> SparkSession:
        """The session of the sandbox."""
        spark = self._session.get(self.spec)
        freeze_time(spark, self._clock.millis)
        return spark

    @property
    def store(self) -> TableStore:
        """The tables of the sandbox."""
        return TableStore(pipeline=self.spec.name, spark=self.spark, storage=self.storage)

    @property
    def graph(self) -> DataflowGraph:
        """The graph of the last plan or update; else of all datasets."""
        if self._graph is None:
            self.prepared(UpdateRequest(), ())
        assert self._graph is not None
        return self._graph

    @property
    def quarantine(self) -> Quarantine:
        """The rows that flows could not write."""
        return Quarantine(store=self.store, graph=lambda: self.graph)

    @property
    def definitions(self) -> Definitions:
        """The declarations of the modules, which are loaded once, and again if their sequence has changed.

        Raises:
            GraphErrors: TEST_INPUT_NOT_GIVEN of each input that the modules read while they are loaded.
        """
        modules = (*self._modules,)
        if self._loaded is None or self._loaded.failure is not None or self._loaded_from != modules:
            self._inputs.begin(self.spark)
            loaded = Definitions.load(self.spec, modules, self.spark, self._inputs)
            if self._inputs.faults():  # modules read inputs while they are loaded
                raise GraphErrors(self._inputs.faults())
            self._inputs.copied_from(loaded.registry)
            self._loaded, self._loaded_from = loaded, modules
        return self._loaded

    def names(self) -> tuple[QualifiedName, ...]:
        """The names of all declared datasets."""
        return tuple(spec.name for spec in self.definitions.registry.datasets)

    def table(self, name: QualifiedName) -> DataFrame:
        """Return the rows of a declared dataset: given, of a table, of a sink, or of a view's query.

        Raises:
            UserError: TEST_VIEW_STREAMS.
            OperationError: DATASET_NOT_MATERIALIZED.
        """
        folder = self.table_folder(name)
        if folder is not None:
            return self.spark.read.format("delta").load(folder).drop(HIDDEN_COLUMN)
        with updating(is_run=True):
            rows = self._isolated(self._given()).sql(f"SELECT * FROM {name.quoted}", self.store, {})
        if rows.isStreaming:
            raise UserError("TEST_VIEW_STREAMS", location=caller_location(), dataset=name)
        return rows

    def table_folder(self, name: QualifiedName) -> str | None:
        """Return the folder of the Delta table with the rows of a declared dataset: given, of a table, or of a sink.

        A temporary view has none, unless its rows are given.

        Raises:
            OperationError: DATASET_NOT_MATERIALIZED.
        """
        registry = self.definitions.registry
        if name in self._inputs.given_datasets(self.names(), registry.name):
            return str(self._inputs.table(self.spark, name))
        (spec,) = [_isolated(each, self.store.layout) for each in registry.datasets if each.name == name]
        if spec.kind is DatasetKind.SINK:
            return dict(spec.options)["path"]
        if spec.kind is DatasetKind.TEMPORARY_VIEW:
            return None
        self.store.check_readable(spec)
        return self.store.path(spec)

    def foretell(self) -> tuple[OperationError, ...]:
        """Return the errors of flows that certainly can't continue."""
        return foretold(self.graph, StateReader(graph=self.graph, store=self.store).read())

    def prepared(self, request: UpdateRequest, only: Collection[QualifiedName], *, with_inputs: bool = True) -> Update:
        """Return an update of some datasets and of all that they read.

        Args:
            request: the request; `refresh` is replaced by these datasets.
            only: the datasets; () for all.
            with_inputs: whether the datasets that they read are updated, too, and not read as they are.

        Raises:
            GraphErrors: the errors of the definitions, and TEST_INPUT_NOT_GIVEN of each input that is read.
            RequestErrors: TEST_INPUT_UNUSED.
        """
        given = self._given()
        for name in only:
            if name in given:
                raise UserError("TEST_DATASET_GIVEN", location=caller_location(), dataset=name)
        is_whole = not only
        definitions = self._isolated(given)
        self._inputs.begin(self.spark)
        with updating(is_run=True):
            definitions = definitions.check(self.store).expanded(self.store, request)
        if given and not only:
            with quiet_query_log():
                feeding = only_feeding(given, self.definitions.registry, self.spark)
            only = [spec.name for spec in definitions.registry.datasets if spec.name not in feeding]
            self._inputs.begin(self.spark)

        def resolve() -> DataflowGraph:
            return definitions.resolve(self.store, request, only or None)

        self._graph = self._resolved(resolve)
        self._check_use(None if is_whole else lambda: definitions.resolve(self.store, request))
        selected = only if only and not with_inputs else [each.name for each in self._graph.datasets]
        request = definitions.configured(replace(request, refresh=tuple(selected)))
        return Update(
            graph=self._graph, registry=definitions.registry, spark=self.spark, store=self.store, request=request,
            settings=UpdateSettings.of(definitions.spec), clock=self._clock, stop=StopSignal(), resolve=resolve,
        )  # fmt: skip

    def _given(self) -> frozenset[QualifiedName]:
        """Return the datasets whose rows are given, after the types of their columns are known."""
        registry = self.definitions.registry
        given = self._inputs.given_datasets(self.names(), registry.name)
        own = self._isolated(frozenset())

        def resolve(name: QualifiedName) -> DataflowGraph:
            return own.resolve(self.store, UpdateRequest(), [name])

        for spec in registry.datasets:
            if spec.name in given and str(spec.name) not in self._inputs.schemas:
                with self._inputs.guessing():
                    self._inputs.schemas[str(spec.name)] = column_types(spec, self.spark, resolve)
        return given

    def _isolated(self, given: Collection[QualifiedName]) -> Definitions:
        definitions, layout = self.definitions, StorageLayout(storage=self.storage)
        return replace(definitions, registry=isolated(definitions.registry, self._inputs, layout, given))

    def _resolved(self, resolve: Callable[[], DataflowGraph]) -> DataflowGraph:
        errors: list[SluiceError] = []
        graph: DataflowGraph | None = None
        try:
            graph = resolve()
        except GraphErrors as error:
            errors += error.errors
        errors += self._inputs.faults()
        if errors or graph is None:
            raise GraphErrors(list({error.render(): error for error in errors}.values()))
        return graph

    def _check_use(self, resolve: Callable[[], DataflowGraph] | None) -> None:
        """Check that something reads each given input; what a dataset outside of the update may read passes.

        A query that lacks an input is not resolved to its end. Then a given input is refused only if its name is like
        that of another one. What batch functions of sinks read is unknown before they run.

        Args:
            resolve: resolves the whole pipeline, whose other datasets may read it; None if they are resolved already.

        Raises:
            RequestErrors: TEST_INPUT_UNUSED.
        """
        if self._graph is not None and any(
            each.kind is DatasetKind.FOREACH_BATCH_SINK for each in self._graph.datasets
        ):
            return
        unused = self._inputs.unused()
        if unused and resolve is not None:
            with self._inputs.guessing():
                with suppress(SluiceError):
                    resolve()
                found, is_unknown = self._inputs.unused(), bool(self._inputs.faults())
                unused = tuple(error for error in found if error.fields["hint"] or not is_unknown)
        if unused:
            raise RequestErrors(unused)

    def close(self) -> None:
        """Release the session."""
        self._session.close()


def isolated_spec(spec: PipelineSpec, storage: str) -> PipelineSpec:
    """Return the spec of a sandbox: with its storage, the settings of tests, and without retries."""
    return replace(
        spec, storage=storage, spark_conf=(*spec.spark_conf, *test_session.SESSION.items(), (ISOLATED, "true")),
        development=True, continuous=False,
    )  # fmt: skip


def isolated(registry: Registry, inputs: Inputs, layout: StorageLayout, given: Collection[QualifiedName]) -> Registry:
    """Return the declarations of a sandbox.

    Datasets whose rows are given have no flows, and are read as other tables. Tables are in the storage of the sandbox,
    and so are the rows of sinks. Event hooks are not called, and databases are not connected to.
    """
    flows = [flow for flow in registry.flows if flow.target not in given]
    return replace(
        registry,
        datasets=[_isolated(spec, layout) for spec in registry.datasets if spec.name not in given],
        flows=flows,
        ingestions=[each for each in registry.ingestions if inputs.is_real(each)],
        hooks=[],
    )


def _isolated(spec: DatasetSpec, layout: StorageLayout) -> DatasetSpec:
    """Return a dataset whose rows are in the storage of the sandbox."""
    if spec.kind is not DatasetKind.SINK:
        return replace(spec, path=None)
    options = {key.lower(): value for key, value in spec.options}
    table = options.get("tablename") if (spec.format or "").lower() == "delta" else None
    name = (
        spec.name if table is None else QualifiedName.parse(table, catalog=spec.name.catalog, schema=spec.name.schema)
    )
    return replace(spec, format="delta", options=(("path", layout.table(name)),))
