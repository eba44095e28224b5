"""The facade for programs: a pipeline from a spec file or from modules, its graph, plan, updates and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Self, Unpack

from pyspark.errors import AnalysisException

from framework.declare.loader import check_libraries
from framework.declare.pipeline_spec import PipelineSpec, default_storage, load_spec
from framework.diagrams.notebook import graph_html
from framework.diagrams.preview import Preview
from framework.foundation.clock import SystemClock
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.storage import Storage, is_local, open_storage
from framework.graph.calls import first_words
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.graph.rules import did_you_mean
from framework.plan.request import RequestOptions, UpdateRequest
from framework.plan.steps import Plan
from framework.record.events import EVENT_READ_OPTIONS, EVENT_SCHEMA, Event
from framework.record.log import EVENTS_FOLDER
from framework.record.reader import longest_update_seconds
from framework.run.configuration import whole_number
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.streaming_query import session_for
from framework.run.tables.left_tables import LeftTable, LeftTables
from framework.run.tables.table_store import TableStore
from framework.run.update.definitions import Definitions, request_of
from framework.run.update.lock import check_unlocked
from framework.run.update.prune import prune_tables
from framework.run.update.results import UpdateResult
from framework.run.update.retries import retry_policy
from framework.run.update.supervisor import refresh_intervals
from framework.run.update.update import Update
from framework.running_update import RunningUpdate
from framework.session.spark_session import DEFAULT_MASTER, active_session, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARALLEL_FLOWS = "pipelines.maxParallelFlows"
_DEFAULT_PARALLEL_FLOWS = 4
_SHORT_UPDATE_SECONDS = 60.0

Module = str | Path | ModuleType | Callable[[], object]
Observer = Callable[[Event], None]


class Pipeline:
    """A pipeline that can be validated, planned, run and read; the constructor does no work.

    Args:
        name: the pipeline's name.
        modules: files, modules or functions that declare the datasets and flows; each runs once, with the
            pipeline's session as the global `spark`.
        storage: folder or URI of checkpoints, events and tables; default `.sluice/<name>`.
        catalog: catalog of names without one.
        schema: schema of names without one.
        configuration: entries that query functions read with `spark.conf.get`.
        spark_conf: settings of the Spark session.
        master: URL of the Spark master; default `local[*]`.
        spark: an existing session to use instead of starting one.
        development: whether to disable retries.

    Examples:
        >>> Pipeline.from_spec("pipeline.yml").run()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        name: str,
        modules: Sequence[Module] = (),
        storage: str | Path | None = None,
        catalog: str = "main",
        schema: str = "default",
        configuration: Mapping[str, str] | None = None,
        spark_conf: Mapping[str, str] | None = None,
        master: str | None = None,
        spark: SparkSession | None = None,
        development: bool = False,
    ) -> None:
        self._spec = PipelineSpec(
            name=name,
            storage=str(storage or default_storage(name)),
            catalog=catalog,
            schema=schema,
            configuration=tuple((configuration or {}).items()),
            spark_conf=tuple((spark_conf or {}).items()),
            development=development,
        )
        self._set_up(modules, master=master, spark=spark)

    @classmethod
    def from_spec(
        cls,
        path: str | Path,
        *,
        master: str | None = None,
        parameters: Mapping[str, str] | None = None,
        storage: str | Path | None = None,
        spark: SparkSession | None = None,
        short: bool | None = False,
        verbose: bool = False,
        cold: bool = False,
    ) -> Self:
        """Create the pipeline of a spec file.

        Args:
            path: `pipeline.yml`, or Spark's own `spark-pipeline.yml`.
            master: URL of the Spark master; default `local[*]`.
            parameters: entries of the configuration that override those of the file.
            storage: overrides the storage of the file, for example with the folder of a test.
            spark: an existing session to use.
            short: start Spark for a short-running command; None: if the last updates were short.
            verbose: print Spark's log.
            cold: start Spark, even if `sluice session start` has it ready for this folder.

        Raises:
            UserError: the file is missing or not YAML, or has unknown keys or invalid values.
        """
        pipeline = cls.__new__(cls)
        spec = load_spec(Path(path))
        spec = spec if storage is None else replace(spec, storage=str(storage))
        pipeline._spec = spec.with_parameters(parameters or {})  # noqa: SLF001 - our own
        pipeline._set_up((), master=master, spark=spark, short=short, verbose=verbose, cold=cold)  # noqa: SLF001 - our own
        return pipeline

    def _set_up(
        self,
        modules: Sequence[Module],
        *,
        master: str | None,
        spark: SparkSession | None,
        short: bool | None = False,
        verbose: bool = False,
        cold: bool = False,
    ) -> None:
        self._modules = tuple(modules)
        self._master = master
        self._base = spark
        self._owns_session = False
        self._session: SparkSession | None = None
        self._short = short
        self._verbose = verbose
        self._cold = cold
        self._running: list[StopSignal] = []
        self._graph: DataflowGraph | None = None
        self._loaded: Definitions | None = None
        self._storage: Storage | None = None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._spec.name

    @property
    def spec(self) -> PipelineSpec:
        """The configuration of the pipeline."""
        return self._spec

    @property
    def spark(self) -> SparkSession:
        """The pipeline's session with its configuration, started at the first use.

        Each pipeline has its own session, so that two pipelines in one process don't mix settings.
        """
        if self._session is None:
            if self._base is None:
                # An active session belongs to another pipeline or to the user, and `close` does not stop it.
                self._owns_session = active_session() is None
                self._base = start_session(
                    app_name=f"sluice {self.name}",
                    master=self._master or DEFAULT_MASTER,
                    spark_conf=dict(self._spec.spark_conf),
                    verbose=self._verbose,
                    short=self._updates_are_short() if self._short is None else self._short,
                    cold=self._cold,
                )
            # An existing session may lack our settings; static ones can't be changed.
            base = self._base
            settings = {key: value for key, value in self._spec.spark_conf if base.conf.isModifiable(key)}
            self._session = session_for(base, {**settings, **dict(self._spec.configuration)})
        return self._session

    def _updates_are_short(self) -> bool:
        """Return whether the last updates took less than a minute each: then Java compiles for its start only.

        Java can't change that later, so an update that turns out to be long takes about a fifth longer (ADR 26).
        """
        if self._spec.continuous or not is_local(self._spec.storage):
            return False
        longest = longest_update_seconds(self.storage)
        return longest is not None and longest < _SHORT_UPDATE_SECONDS

    @property
    def storage(self) -> Storage:
        """The storage of checkpoints, events and tables; a local one needs no Spark."""
        if self._storage is None:
            local = is_local(self._spec.storage)
            self._storage = open_storage(self._spec.storage, None if local else self.spark)
        return self._storage

    @property
    def graph(self) -> DataflowGraph:
        """The resolved graph; modules are loaded at the first use.

        Raises:
            GraphErrors: all errors of the definitions.
        """
        if self._graph is None:
            self._graph = self._definitions.resolve(self._store, UpdateRequest())
        return self._graph

    def validate(self) -> DataflowGraph:
        """Load and resolve the pipeline; nothing is written.

        Raises:
            GraphErrors: all errors of the definitions.
        """
        return self.graph

    def plan(self, **request: Unpack[RequestOptions]) -> Plan:
        """Return the steps of an update with the same arguments; nothing is written."""
        return self._update(request_of(self._spec, **request), ()).plan()

    def run(self, *, observers: Sequence[Observer] = (), **request: Unpack[RequestOptions]) -> UpdateResult:
        """Update the pipeline's datasets.

        Args:
            observers: called with each event when it happens.
            **request: `refresh`, `full_refresh`, `reset_checkpoints` (names) and `full_refresh_all`;
                all datasets if no name is given.

        Raises:
            GraphErrors: errors of the definitions; nothing was written.
            UserError: unknown names in the request; nothing was written.
            OperationError: another update is running, or the storage can't be written.
        """
        wanted, stop = request_of(self._spec, **request), StopSignal()
        self._running.append(stop)
        try:
            if is_local(self._spec.storage):
                check_unlocked(self.storage)
            return self._update(wanted, observers, stop).run()
        finally:
            self._running.remove(stop)

    def start(self, *, observers: Sequence[Observer] = (), **request: Unpack[RequestOptions]) -> RunningUpdate:
        """Start a continuous update in the background: every flow keeps running until it is stopped.

        Args:
            observers: called with each event when it happens.
            **request: see `run`.

        Returns:
            A handle with `stop()`, `wait()`, `state`, `flows` and `board`.

        Raises:
            GraphErrors: errors of the definitions; nothing was written.
            UserError: unknown names in the request; nothing was written.
        """
        wanted, stop = replace(request_of(self._spec, **request), continuous=True), StopSignal()
        self._running.append(stop)
        return RunningUpdate(
            lambda observe: self._update(wanted, [*observers, observe], stop),
            stop,
            on_end=lambda: self._running.remove(stop),
        )

    def stop(self) -> None:
        """Stop the running update: its queries end, checkpoints stay consistent, its state is CANCELED.

        Later updates of the same object are not affected. Without a running update, this does nothing.
        """
        for stop in tuple(self._running):
            stop.set()

    def left_tables(self) -> tuple[LeftTable, ...]:
        """Return the tables of this pipeline that its code no longer declares; `prune` drops them.

        Tables that are still in use are not among them; the plan names them.

        Raises:
            GraphErrors: errors of the definitions.
            UserError: PRUNE_NOTHING_DECLARED, PRUNE_LIBRARY_EMPTY: code may be missing.
        """
        return self._left().find()

    def prune(self, tables: Sequence[LeftTable]) -> tuple[LeftTable, ...]:
        """Drop tables that the code no longer declares, with the checkpoints of their flows.

        The code is loaded again. A table that is declared again, or that was written to since `left_tables`
        returned it, is kept.

        Args:
            tables: some of the tables that `left_tables` returns; all other tables are kept.

        Returns:
            The dropped tables.

        Raises:
            GraphErrors: errors of the definitions; nothing was dropped.
            UserError: PRUNE_NOTHING_DECLARED, PRUNE_LIBRARY_EMPTY; nothing was dropped.
            OperationError: an update is running; TABLE_NOT_OWNED.
        """
        return prune_tables(self.storage, self.name, self._left, tables)

    def _left(self) -> LeftTables:
        """Reload the code and return the tables it no longer declares; refused if code may be missing."""
        check_libraries(self._spec)
        self._loaded = self._graph = None
        if not self.graph.datasets:
            raise UserError("PRUNE_NOTHING_DECLARED", pipeline=self.name)
        return LeftTables(graph=self.graph, store=self._store)

    def table(self, name: str) -> DataFrame:
        """Return the current rows of one of the pipeline's tables.

        Raises:
            UserError: DATASET_NOT_FOUND.
            OperationError: DATASET_NOT_MATERIALIZED before its first update; TABLE_NOT_OWNED.
        """
        return self._store.frame(self._table(name).spec)

    def preview(self, name: str, limit: int = 10) -> Preview:
        """Return the first rows of a table: a DataFrame that a notebook displays."""
        return Preview(self.table(name), limit)

    def sql(self, query: str) -> DataFrame:
        """Return the rows of a query over the pipeline's datasets, by name, and over `event_log`.

        Raises:
            UserError: TABLE_OR_VIEW_NOT_FOUND, UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND, or QUERY_INVALID.
        """
        update = self._update(UpdateRequest(), ())
        try:
            return update.queries.sql(query, {"event_log": self.events})
        except AnalysisException as error:
            raise UserError("QUERY_INVALID", cause=first_words(error)) from error

    def events(self) -> DataFrame:
        """Return the event log as a table: id, sequence, origin, timestamp, message, level, …, details, event_type."""
        folder = self.storage.path(EVENTS_FOLDER)
        if not self.storage.exists(folder):
            return self.spark.createDataFrame([], EVENT_SCHEMA)
        return self.spark.read.schema(EVENT_SCHEMA).options(**EVENT_READ_OPTIONS).json(folder)

    def close(self) -> None:
        """Stop the Spark session if this pipeline started it."""
        if self._owns_session and self._base is not None:
            stop_session(self._base)
            self._loaded = self._graph = self._storage = None  # they refer to the stopped session
            self._base = self._session = None

    def __repr__(self) -> str:
        return f"Pipeline(name={self.name!r}, storage={self._spec.storage!r})"

    def _repr_html_(self) -> str:
        """Return the diagram of the graph for notebooks."""
        return graph_html(self.graph)

    @property
    def _store(self) -> TableStore:
        return TableStore(pipeline=self.name, spark=self.spark, storage=self.storage)

    @property
    def _definitions(self) -> Definitions:
        """The declarations of the modules, which are loaded at the first use."""
        if self._loaded is None:
            self._loaded = Definitions.load(self._spec, self._modules, self._store)
        return self._loaded

    def _update(self, request: UpdateRequest, observers: Sequence[Observer], stop: StopSignal | None = None) -> Update:
        # Resolved for each update, because the tables of the storage may have changed.
        self._graph = self._definitions.resolve(self._store, request)
        configuration = dict(self._spec.configuration)
        return Update(
            graph=self._graph,
            registry=self._definitions.registry,
            spark=self.spark,
            store=self._store,
            request=request,
            retries=retry_policy(configuration, development=self._spec.development),
            clock=SystemClock(),
            stop=stop or StopSignal(),
            parallel_flows=whole_number(configuration, PARALLEL_FLOWS, default=_DEFAULT_PARALLEL_FLOWS, least=1),
            observers=observers,
            intervals=refresh_intervals(configuration),
        )

    def _table(self, name: str) -> GraphDataset:
        full = QualifiedName.parse(name, catalog=self._spec.catalog, schema=self._spec.schema)
        dataset = self.graph.dataset(full)
        if dataset is None or not dataset.is_table:
            tables = [each.name for each in self.graph.datasets if each.is_table]
            raise UserError("DATASET_NOT_FOUND", dataset=full, hint=did_you_mean(full, tables))
        self._store.check_readable(dataset)
        return dataset
