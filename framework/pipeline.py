"""The facade for programs: a pipeline from a spec file or from modules, its graph, plan, updates and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from framework.declare.modules.loader import Module, check_libraries
from framework.declare.pipeline_spec import PipelineSpec, default_storage, load_spec
from framework.declare.specs import DatasetSpec, IngestedGateway, IngestionSpec
from framework.declare.workspace.surroundings import updating
from framework.diagrams.notebook import graph_html
from framework.diagrams.preview import Preview
from framework.engine.files.storage import open_storage
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import Storage, is_local
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.planner import foretold
from framework.plan.request import RequestOptions, UpdateRequest
from framework.plan.steps import Plan
from framework.record.events import EVENT_READ_OPTIONS, EVENT_SCHEMA
from framework.record.log import EVENTS_FOLDER
from framework.recovery.backups import compare_backups
from framework.recovery.comparison import Comparison
from framework.recovery.doctor.doctor import Doctor
from framework.recovery.flow_lag import FlowLag
from framework.recovery.lag import read_lag
from framework.recovery.quarantine.quarantine import Quarantine
from framework.recovery.reconcile import reconcile
from framework.recovery.request import ComparisonOptions, ComparisonRequest
from framework.recovery.rewind.rewinder import Rewinder
from framework.recovery.sides import Sides
from framework.run.flows.state.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.pipeline_session import PipelineSession
from framework.run.tables.left_tables import LeftTable, LeftTables
from framework.run.tables.stored_resolution import store_graph
from framework.run.tables.table_store import TableStore
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.definitions import Definitions, request_of
from framework.run.update.lock import check_unlocked
from framework.run.update.prune import prune_tables
from framework.run.update.results import UpdateResult
from framework.run.update.settings import UpdateSettings
from framework.run.update.update import Update
from framework.running_update import MakeUpdate, Observer, RunningUpdate, Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.sandbox.sandbox import Sandbox


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
        self._set_up(modules, PipelineSession(base=spark, master=master))

    @classmethod
    def from_spec(
        cls, path: str | Path, *, modules: Sequence[Module] = (), master: str | None = None,
        parameters: Mapping[str, str] | None = None, storage: str | Path | None = None,
        local: str | Path | None = None, spark: SparkSession | None = None, short: bool | None = False,
        verbose: bool = False, cold: bool = False,
    ) -> Self:  # fmt: skip
        """Create the pipeline of a spec file.

        Args:
            path: `pipeline.yml`, or Spark's own `spark-pipeline.yml`.
            modules: further modules, as of the constructor.
            master: URL of the Spark master; default `local[*]`.
            parameters: configuration entries that override those of the file.
            storage: storage that overrides the one in the file, for example a test's folder.
            local: replacements for what a workspace provides; default `sluice.local.yml` beside `path`.
            spark: an existing session to use.
            short: whether to start Spark for a short-running command; None to decide by the last updates.
            verbose: print Spark's log.
            cold: whether to start Spark even if `sluice session start` has a session ready for this folder.

        Raises:
            UserError: the file is missing, is not YAML, or has unknown keys or invalid values.
        """
        pipeline = cls.__new__(cls)
        spec = load_spec(Path(path), None if local is None else Path(local))
        spec = spec if storage is None else replace(spec, storage=str(storage))
        pipeline._spec = spec.with_parameters(parameters or {})  # noqa: SLF001 - our own
        session = PipelineSession(base=spark, master=master, short=short, verbose=verbose, cold=cold)
        pipeline._set_up(modules, session)  # noqa: SLF001 - our own
        return pipeline

    def _set_up(self, modules: Sequence[Module], session: PipelineSession) -> None:
        self._modules = tuple(modules)
        self._session = session
        self._updates = Updates(lambda: compare_backups(self.storage, self.graph, self._reconciled))
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
        """The pipeline's own session with its configuration, started at the first use."""
        return self._session.get(self._spec)

    @property
    def storage(self) -> Storage:
        """The storage of checkpoints, events and tables; local storage needs no Spark."""
        if self._storage is None:
            self._storage = open_storage(self._spec.storage, None if is_local(self._spec.storage) else self.spark)
        return self._storage

    @property
    def graph(self) -> DataflowGraph:
        """The resolved graph; modules are loaded at the first use.

        Raises:
            GraphErrors: all errors of the definitions.
        """
        if self._graph is None:
            self._graph = self._definitions.expanded(self._store, UpdateRequest()).resolve(self._store, UpdateRequest())
        return self._graph

    @property
    def ingestions(self) -> tuple[IngestionSpec, ...]:
        """The ingestions of the pipeline as declared; modules are loaded at the first use."""
        return tuple(self._definitions.registry.ingestions)

    @property
    def gateways(self) -> tuple[IngestedGateway, ...]:
        """The ingestions of the pipeline with their tables at the source.

        Raises:
            GraphErrors: the database can't be read, or lacks something that is declared.
        """
        return self._definitions.expanded(self._store, UpdateRequest()).gateways()

    def validate(self) -> DataflowGraph:
        """Load and resolve the pipeline, and store its graph for readers if the storage is writable; nothing else.

        Raises:
            GraphErrors: all errors of the definitions.
        """
        store_graph(self.graph, self._store)
        return self.graph

    def foretell(self) -> tuple[OperationError, ...]:
        """Return the errors of flows that certainly can't continue, and of unreadable tables; nothing is started.

        Raises:
            GraphErrors: all errors of the definitions.
        """
        return foretold(self.graph, StateReader(graph=self.graph, store=self._store).read())

    def starts_of(self, flow: QualifiedName, starts: Sequence[str]) -> str | None:
        """Return the start of a flow's sources as the manifest of its checkpoint stores it; None without a start.

        Args:
            flow: the flow's full name.
            starts: `option=value` or a keyword for a flow with one source, `source:start` for each of several sources.

        Raises:
            UserError: FLOW_NOT_FOUND; a start is invalid, or its source does not have it.
        """
        return StateReader(graph=self.graph, store=self._store).starts.of(flow, starts) if starts else None

    def plan(self, **request: Unpack[RequestOptions]) -> Plan:
        """Return the steps of an update with the same arguments; write nothing."""
        return self._update(request_of(self._spec, **request), ()).plan()

    def run(
        self,
        *,
        observers: Sequence[Observer] = (),
        identity: UpdateIdentity | None = None,
        **request: Unpack[RequestOptions],
    ) -> UpdateResult:
        """Update the pipeline's datasets.

        Args:
            observers: called with each event when it happens.
            identity: the id, request, attempt and cause of the update; default: a new request.
            **request: `refresh`, `full_refresh`, `reset_checkpoints` (names, or a mapping from names to starts of their
                sources) and `full_refresh_all`; all datasets if no name is given. With `keep_history`, each table of
                `full_refresh` is backed up, and rows that its sources no longer have are put back.

        Raises:
            GraphErrors: errors of the definitions; nothing was written.
            UserError: unknown names in the request, or UPDATE_ID_USED; nothing was written.
            OperationError: another update is running, or the storage can't be written.
        """
        return self._run(None, observers=observers, identity=identity, **request)

    def _run(
        self, check: Callable[[], None] | None, *, observers: Sequence[Observer],
        identity: UpdateIdentity | None = None, **request: Unpack[RequestOptions],
    ) -> UpdateResult:  # fmt: skip
        make = self._making(request_of(self._spec, **request), observers, identity)
        check_unlocked(self.storage)
        return self._updates.run(lambda stop, more: replace(make(stop, more), check=check))

    def start(
        self,
        *,
        observers: Sequence[Observer] = (),
        identity: UpdateIdentity | None = None,
        **request: Unpack[RequestOptions],
    ) -> RunningUpdate:
        """Start an update in the background: a continuous one, or with `continuous=False` a triggered one.

        Its handle has `update_id`, `state`, `board`, `flows`, `wait()` and `stop()`. The arguments are those of `run`.

        Raises:
            SluiceError: as of `run`; nothing was written. Later errors are raised by `wait()`.
        """
        wanted = replace(request_of(self._spec, **request), continuous=request.get("continuous", True))
        return self._updates.start(self._making(wanted, observers, identity))

    def stop(self) -> None:
        """Stop the running update, if there is one; its queries end, and checkpoints stay consistent."""
        self._updates.stop()

    def left_tables(self) -> tuple[LeftTable, ...]:
        """Return this pipeline's tables that its code no longer declares and that are not in use, for `prune`.

        Raises:
            GraphErrors: errors of the definitions.
            UserError: PRUNE_NOTHING_DECLARED, PRUNE_LIBRARY_EMPTY: code may be missing.
            OperationError: PRUNE_SOURCES_UNREAD: tables may be missing.
        """
        return self._left().find()

    def prune(self, tables: Sequence[LeftTable]) -> tuple[LeftTable, ...]:
        """Drop tables that the code no longer declares, with the checkpoints of their flows.

        The code is loaded again. A table is kept if it is declared again, or if it was written to after `left_tables`
        returned it.

        Args:
            tables: some of the tables from `left_tables`; all other tables are kept.

        Returns:
            The dropped tables.

        Raises:
            GraphErrors: errors of the definitions; nothing was dropped.
            UserError: PRUNE_NOTHING_DECLARED, PRUNE_LIBRARY_EMPTY; nothing was dropped.
            OperationError: PRUNE_SOURCES_UNREAD, nothing was dropped; an update is running; TABLE_NOT_OWNED.
        """
        return prune_tables(self.storage, self.name, self._left, tables)

    def _left(self) -> LeftTables:
        """Reload the code, and return the tables that it no longer declares; refuse if code may be missing."""
        check_libraries(self._spec)
        self._loaded = self._graph = None
        self._session.renew()
        return LeftTables.of(self.graph, self._store)

    def table(self, name: str) -> DataFrame:
        """Return the current rows of a table of the pipeline.

        Raises:
            UserError: DATASET_NOT_FOUND.
            OperationError: DATASET_NOT_MATERIALIZED before its first update; TABLE_NOT_OWNED.
        """
        return self._store.frame(self._table(name))

    def preview(self, name: str, limit: int = 10) -> Preview:
        """Return the first rows of a table: a DataFrame that a notebook displays."""
        return Preview(self.table(name), limit, self._table(name).keys)

    def sql(self, query: str) -> DataFrame:
        """Return the rows of a query over the pipeline's datasets, by name, and over `event_log` and `quarantine_log`.

        Raises:
            UserError: TABLE_OR_VIEW_NOT_FOUND, UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND, or QUERY_INVALID.
        """
        more = {"event_log": self.events}
        if "quarantine_log" in query.lower():  # the states of its rows need Spark jobs, which a query must not start
            kept = self.quarantine.rows()
            more["quarantine_log"] = lambda: kept
        return self._declared.sql(query, self._store, more)

    def reconcile(self, first: str, second: str, **options: Unpack[ComparisonOptions]) -> Comparison:
        """Compare two tables row by row; each is read at most twice.

        Args:
            first: a dataset, a table, a folder as delta.`/path`, or a table of a source database as
                database:CONNECTION/schema.table; a suffix such as `@v12` selects a version of a Delta table.
            second: the second table, in the same form.
            **options: `keys`, `columns`, `where` and `limit`; see `ComparisonRequest`.

        Raises:
            UserError: a table or a column does not exist, or the condition is invalid.
            OperationError: DATASET_NOT_MATERIALIZED, TABLE_NOT_OWNED.
        """
        return self._reconciled(ComparisonRequest.of(first, second, **options))

    def _reconciled(self, request: ComparisonRequest) -> Comparison:
        return reconcile(
            request,
            Sides(graph=self.graph, store=self._store, complete=self._complete),
            connections=Path(self._spec.root or "."),
            shared_folder=Path(self.storage.path("comparisons")) if is_local(self._spec.storage) else None,
        )

    def lag(self, flow: str | None = None) -> tuple[FlowLag, ...]:
        """Return the lag of each flow behind its sources, its health, and its rows in the quarantine.

        Args:
            flow: one flow, by its full name or its last parts; None for all flows.

        Raises:
            UserError: LAG_FLOW_NOT_FOUND.
        """
        return read_lag(self.graph, self._store, clock=SystemClock(), flow=flow, waiting=self.quarantine.waiting())

    @property
    def doctor(self) -> Doctor:
        """The doctor, which explains and repairs flows that are broken, stuck or behind, as `sluice doctor` does."""
        return Doctor(name=self.name, graph=lambda: self.graph, store=self._store, run=self._run)

    @property
    def rewinds(self) -> Rewinder:
        """The rewinder, which takes tables and their flows back to an earlier time with `plan()` and `rewind()`."""
        return Rewinder(graph=lambda: self.graph, store=self._store, complete=self._complete)

    @property
    def quarantine(self) -> Quarantine:
        """The rows that flows could not write, with `list()`, `rows()`, `replay()` and `drop()`."""
        return Quarantine(store=self._store, graph=lambda: self.graph)

    def sandbox(self, folder: str | Path | None = None) -> Sandbox:
        """Return a sandbox for tests and notebooks, in a folder of its own; None for a temporary one. See `Sandbox`."""
        from framework.sandbox.sandbox import Sandbox

        return Sandbox(self._spec, self._modules, self._session, folder)

    def events(self) -> DataFrame:
        """Return the event log as a table: id, sequence, origin, timestamp, message, level, …, details, event_type."""
        folder = self.storage.path(EVENTS_FOLDER)
        log = self.spark.read.schema(EVENT_SCHEMA).options(**EVENT_READ_OPTIONS)
        return log.json(folder) if self.storage.exists(folder) else self.spark.createDataFrame([], EVENT_SCHEMA)

    def close(self) -> None:
        """Stop the Spark session if a pipeline of this process started it and no other pipeline uses it."""
        if self._session.close():
            self._loaded = self._graph = self._storage = None  # they reference the stopped session

    def __repr__(self) -> str:
        return f"Pipeline(name={self.name!r}, storage={self._spec.storage!r})"

    def _repr_html_(self) -> str:
        """Return the diagram of the graph for notebooks."""
        return graph_html(self.graph)

    @property
    def _store(self) -> TableStore:
        return TableStore(pipeline=self.name, spark=self.spark, storage=self.storage)

    @property
    def _declared(self) -> Definitions:
        if self._loaded is None or self._loaded.failure is not None:  # the code may be fixed between two calls
            self._loaded = Definitions.load(self._spec, self._modules, self.spark)
        return self._loaded

    @property
    def _definitions(self) -> Definitions:
        return self._declared.check(self._store)

    def _making(
        self, request: UpdateRequest, observers: Sequence[Observer], identity: UpdateIdentity | None
    ) -> MakeUpdate:
        named = identity or UpdateIdentity.of()
        return lambda stop, more: replace(self._update(request, (*observers, *more), stop), identity=named)

    def _update(self, request: UpdateRequest, observers: Sequence[Observer], stop: StopSignal | None = None) -> Update:
        # Resolved for each update, because the tables of the storage or of a source database may have changed.
        with updating(is_run=stop is not None):
            definitions = self._definitions.expanded(self._store, request)
        request = definitions.configured(request)
        self._graph = definitions.resolve(self._store, request)
        return Update(
            graph=self._graph, registry=definitions.registry, spark=self.spark, store=self._store, request=request,
            settings=UpdateSettings.of(definitions.spec), clock=SystemClock(), stop=stop or StopSignal(),
            observers=observers, resolve=lambda: definitions.resolve(self._store, request),
        )  # fmt: skip

    def _complete(self, name: str) -> QualifiedName:
        return QualifiedName.parse(name, catalog=self._spec.catalog, schema=self._spec.schema)

    def _table(self, name: str) -> DatasetSpec:
        table = self._declared.table(self._complete(name), self._store, graph=lambda: self.graph)
        self._store.check_readable(table)
        return table
