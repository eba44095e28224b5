"""Reads in query functions while flows run: names resolve to the stored tables."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, ExpectationSpec, FlowSpec
from framework.engine.delta.table_version import read_small_table
from framework.engine.plans.plans import analysed_plan, node_name
from framework.engine.plans.relations import named
from framework.engine.sessions.execution import active_session
from framework.engine.sessions.session import is_temporary_view
from framework.foundation.computed_columns import DEFAULT, has_default
from framework.foundation.conditions.run import COLUMNS_CHANGED
from framework.foundation.errors import OperationError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.graph.queries.calls import call_query
from framework.graph.queries.settings import SessionSettings
from framework.graph.reading.interception import not_reading, reading, starting
from framework.graph.reading.schemas import reads_changes, with_change_feed
from framework.graph.target_tables.dropped_columns import with_dropped
from framework.graph.target_tables.tables import KnownTables, missing_table
from framework.run.flows.expectations import guarded, marked, passing
from framework.run.flows.repeated_rows import REPEATED, row_ones, unique_ones, with_repeated
from framework.run.quarantine.faults import checked_rows, faults_of
from framework.run.quarantine.table import FILE, OWN_COLUMNS
from framework.run.tables.table_store import TableStore
from framework.schema.data_types import known_part
from framework.sources.cloud_files.columns.schemas import SchemaStore
from framework.sources.delta.first_read import FirstRead
from framework.sources.delta.source import KIND as DELTA
from framework.sources.delta.source import begin_of
from framework.sources.kinds import recognized
from framework.sources.port import StreamingRelation
from framework.sources.starts import ReaderStart, SourceStart, reader_start, start_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# In any other plan, such as one with DISTINCT, an additional column of the source could change the result.
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "Generate", "CollectMetrics"})
_FILES = "FileSource["


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowQuery:
    """A flow's rows over the stored tables, with their expectations.

    `expectations` has the expectations of the target and of the views that the query reads. With a quarantine, the
    frame has all rows, with the columns `REASONS` and `FILE`.
    """

    frame: DataFrame
    expectations: Mapping[QualifiedName, tuple[ExpectationSpec, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableQueries:
    """Calls the query functions of a graph on the tables of a store.

    Calls run one at a time, because they patch PySpark classes and settings of the session that modules share. They
    only build DataFrames, so each call is short.
    """

    graph: DataflowGraph
    registry: Registry
    spark: SparkSession
    store: TableStore
    tables: KnownTables
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _stopped_for: dict[QualifiedName, tuple[str, DataflowGraph]] = field(default_factory=dict)
    """The flows that stopped for changed columns, each with its schema and graph at that time."""

    def flow_query(
        self,
        flow: FlowSpec,
        settings: Mapping[str, str],
        starts: Mapping[str, SourceStart] | None = None,
        *,
        first: FirstRead | None = None,
        quarantines: bool = False,
    ) -> FlowQuery:
        """Return the flow's query with its target's expectations applied.

        Args:
            flow: the flow of the query function.
            settings: Spark settings during the analysis.
            starts: where sources start, by source name, instead of the start in the code.
            first: the first read of the sources of the flow's stream.
            quarantines: whether rows that expectations drop are marked instead of dropped.

        Raises:
            OperationError: SOURCE_COLUMNS_CHANGED.
        """
        target = self.graph.dataset(flow.target)
        is_view = target is not None and target.kind is DatasetKind.MATERIALIZED_VIEW
        reads = _Reads(queries=self, starts=starts or {}, first=first, now=is_view, as_planned=True)
        # Spark builds expressions, such as casts, with the settings of the thread's session.
        session = active_session(self.spark)
        with (
            self._lock,
            session,
            SessionSettings(self.spark).applied(settings),
            reading(reads),
            starting(reads.start_of),
        ):
            frame = call_query(self._function(flow, reads), flow.name, flow.location)
            self._check_columns(flow, frame)
            if target is not None and target.kind is not DatasetKind.TEMPORARY_VIEW:
                frame = _marked(frame, flow, target) if quarantines else _guarded(frame, flow, target)
                frame = _with_defaults(frame, target)
                reads.expectations[target.name] = _of_queries(target)
        return FlowQuery(frame=frame, expectations=dict(reads.expectations))

    def _check_columns(self, spec: FlowSpec, frame: DataFrame) -> None:
        """Check that a query has the columns for which the update planned the flow's table and its readers.

        An external source may change at any time. AUTO CDC would then leave out new columns and skip their rows.
        Columns that are also missing when the graph is resolved again are ignored, such as columns that users add to a
        table of the pipeline.

        Raises:
            OperationError: SOURCE_COLUMNS_CHANGED.
        """
        flow = self.graph.flow(spec.name)
        if flow is None or flow.schema is None or not _reads_outside(flow):
            return
        before, now = _types(StructType.fromJson(json.loads(flow.schema))), _types(frame.schema)
        if before == now:
            self._stopped_for.pop(spec.name, None)
            return
        present, (schema, graph) = frame.schema.json(), self._stopped_for.get(spec.name, ("", self.graph))
        if schema == present and graph is not self.graph:
            return
        self._stopped_for[spec.name] = (present, self.graph)
        changed = (name for name in {**before, **now} if before.get(name) != now.get(name))
        columns = (f"{name} ({before.get(name, 'none')} before, {now.get(name, 'none')} now)" for name in changed)
        raise OperationError(COLUMNS_CHANGED, location=spec.location, flow=spec.name, columns=", ".join(columns))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Block calls of the graph's query functions in the block, which calls them itself or changes shared state."""
        with self._lock:
            yield

    @contextmanager
    def stored(self, session: SparkSession) -> Iterator[None]:
        """Resolve reads in the block's own thread to stored tables; Spark's temporary views take precedence.

        Args:
            session: the session of a batch, whose temporary views the global `spark` also finds.
        """
        with reading(_BatchReads(reads=_Reads(queries=self), session=session), runs_commands=True):
            yield

    def sql(self, query: str, more: Mapping[str, Callable[[], DataFrame]]) -> DataFrame:
        """Return the rows of a SQL query over the datasets and `more` named tables."""
        with self._lock, active_session(self.spark), reading(_Reads(queries=self, more=more)):
            return self.spark.sql(query)

    def _function(self, flow: FlowSpec, reads: _Reads) -> Callable[[], DataFrame]:
        query = self.registry.queries.get(flow.name)
        if query is not None:
            return query
        return lambda: reads.source(flow)


def _reads_outside(flow: GraphFlow) -> bool:
    """Whether a flow reads anything besides named tables of the pipeline."""
    return bool(flow.sources or flow.batch_paths) or any(read.dataset is None for read in flow.reads)


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _guarded(frame: DataFrame, flow: FlowSpec, target: GraphDataset) -> DataFrame:
    checked = with_dropped(frame, _of_queries(target))
    frame, unique = checked.frame, unique_ones(checked.expectations)
    if unique:
        frame = with_repeated(frame, unique, is_checked=passing(checked.expectations))
    frame = guarded(frame, target.name, checked.expectations, held=checked_rows(flow))
    return checked.of_query(frame.drop(REPEATED) if unique else frame)


def _of_queries(target: GraphDataset) -> tuple[ExpectationSpec, ...]:
    """Return the expectations that a query checks; a streaming table checks its unique expectations in each batch."""
    expectations = target.spec.expectations
    return expectations if target.kind is DatasetKind.MATERIALIZED_VIEW else row_ones(expectations)


def _with_defaults(frame: DataFrame, target: GraphDataset) -> DataFrame:
    """Return rows with default values for missing columns, because Delta applies defaults only in INSERT."""
    if target.kind is not DatasetKind.STREAMING_TABLE or f'"{DEFAULT}"' not in (target.table_schema or ""):
        return frame
    present = {name.lower() for name in frame.columns}
    columns = StructType.fromJson(json.loads(target.table_schema or "")).fields
    lacking = [field for field in columns if has_default(field) and field.name.lower() not in present]
    values = {field.name: F.expr(f"({field.metadata[DEFAULT]})").cast(field.dataType) for field in lacking}
    return frame.withColumns(values) if values else frame


def _marked(frame: DataFrame, flow: FlowSpec, target: GraphDataset) -> DataFrame:
    for name in frame.columns:
        if name.lower() in OWN_COLUMNS:
            raise UserError("QUARANTINE_COLUMN_RESERVED", location=flow.location, flow=flow.name, column=name)
    if with_dropped(frame, _of_queries(target)).added:
        raise UserError("QUARANTINE_OF_DROPPED_COLUMNS", location=flow.location, flow=flow.name, dataset=target.name)
    faults = faults_of(frame, flow, target)
    return marked(with_file(frame), target.name, _of_queries(target), held=checked_rows(flow), faults=faults)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reads:
    """The reads of one query, which collects the expectations of the views that it reads.

    Args:
        first: the first read of Delta tables; None if nothing is streamed.
        now: whether the query runs immediately and once. A stream's batch join reads a table again in each batch.
            A view's query then has no stream: a query that groups the view reads the rows of its tables (ADR 74).
        as_planned: whether tables have the columns for which the graph was planned, without those that others add.
    """

    queries: TableQueries
    more: Mapping[str, Callable[[], DataFrame]] = field(default_factory=dict)
    starts: Mapping[str, SourceStart] = field(default_factory=dict)
    first: FirstRead | None = None
    now: bool = False
    as_planned: bool = False
    expectations: dict[QualifiedName, tuple[ExpectationSpec, ...]] = field(default_factory=dict)
    view_reads: Counter[QualifiedName] = field(default_factory=Counter)

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        special = self.more.get(name.strip("`").lower())
        if special is not None:
            return special()
        streaming = streaming and not self.now
        dataset = self._dataset(name)
        if dataset is None:
            options = self._started(name, options) if streaming else options
            found = self.queries.tables.external(spark, name, options, streaming=streaming)
            if found is None:
                known = [each.name for each in self.queries.graph.datasets]
                full = None if "/" in name else self.queries.registry.name(name)
                raise missing_table(name, dataset=full, known=known, tables=self.queries.tables, spark=spark)
            return found.frame
        if dataset.kind is DatasetKind.TEMPORARY_VIEW:
            return named(self._view(dataset), dataset.name)
        return named(self._table(spark, dataset, options, streaming=streaming), dataset.name)

    def is_view(self, name: str) -> bool:
        dataset = self._dataset(name)
        return dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW

    def schemas(self) -> SchemaStore:
        return self.queries.tables.schemas()

    def source(self, flow: FlowSpec) -> DataFrame:
        """Return the named source of an AUTO CDC flow, streaming or batch as it was analysed."""
        found = self.queries.graph.flow(flow.name)
        streaming = found.streaming if found is not None else True
        return self.read(self.queries.spark, flow.source or "", {}, streaming=streaming)

    def start_of(self, relation: StreamingRelation) -> ReaderStart | None:
        """Return the start of a source that the query loads without a table name; None if it has none."""
        if relation.format == "cloudfiles":  # our own format, which becomes a relation of Spark only when it is loaded
            kind, name = "cloud_files", relation.path or ""
        else:
            source = recognized(relation)
            kind, name = source.kind, source.location or source.kind
        start = start_of(self.starts, name, begin_of(relation.options) if kind == DELTA else "")
        if start is None and kind == DELTA:
            options = self._first(name, relation.options)
            return ReaderStart(options=options) if options else None
        return None if start is None else self._reader_start(kind, start, name)

    def _started(self, name: str, options: Mapping[str, str]) -> Mapping[str, str]:
        """Return a table's read options with its start."""
        start = start_of(self.starts, name, begin_of(options))
        return options if start is None else self._reader_start(DELTA, start, name).applied(options)

    def _first(self, path: str, options: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options of a Delta table's first read, if the code sets no other start for it."""
        return {} if self.first is None else self.first.options(path, options)

    def _reader_start(self, kind: str, start: SourceStart, name: str) -> ReaderStart:
        zone = self.queries.spark.conf.get("spark.sql.session.timeZone") or "UTC"
        return reader_start(kind, start, source=name, zone=zone)

    def _dataset(self, name: str) -> GraphDataset | None:
        if "/" in name:
            return None
        return self.queries.graph.dataset(self.queries.registry.name(name))

    def _view(self, view: GraphDataset) -> DataFrame:
        flow = self.queries.graph.flows_into(view.name)[0].spec
        frame = call_query(self.queries.registry.queries[flow.name], flow.name, flow.location)
        self.expectations[view.name] = view.spec.expectations
        self.view_reads[view.name] += 1
        checked = with_dropped(frame, view.spec.expectations)
        number = self.view_reads[view.name]
        return checked.of_query(guarded(checked.frame, view.name, checked.expectations, number=number))

    def _table(
        self, spark: SparkSession, dataset: GraphDataset, options: Mapping[str, str], *, streaming: bool
    ) -> DataFrame:
        store = self.queries.store
        store.check_readable(dataset.spec)
        if streaming:
            started = self._started(str(dataset.name), options)
            options = {**started, **self._first(store.path(dataset.spec), started)}
        frame = (
            read_small_table(spark, store.address(dataset.spec)) if self.now and not (streaming or options) else None
        )
        if frame is None:
            reader = spark.readStream if streaming else spark.read
            frame = reader.format("delta").options(**options).load(store.path(dataset.spec))
        frame = frame.drop(HIDDEN_COLUMN) if HIDDEN_COLUMN in frame.columns else frame
        return _with_known_columns(frame, dataset, options) if self.as_planned else frame


def _with_known_columns(frame: DataFrame, dataset: GraphDataset, options: Mapping[str, str]) -> DataFrame:
    """Return a table's rows without the columns and fields that only its table has, because somebody else added them.

    A type that somebody widened is cast back, which fails for a value that does not fit.
    """
    if dataset.schema is None:
        return frame
    known = StructType.fromJson(json.loads(dataset.schema))
    known = with_change_feed(known) if reads_changes(options) else known
    part = known_part(frame.schema, known)
    assert isinstance(part, StructType)
    return frame if part == frame.schema else frame.to(part)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _BatchReads:
    """The reads of a function that gets micro-batches, which may have created temporary views."""

    reads: _Reads
    session: SparkSession

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        session = next((each for each in (spark, self.session) if is_temporary_view(each, name)), None)
        if session is None:
            return self.reads.read(spark, name, options, streaming=streaming)
        with not_reading():
            return (session.readStream if streaming else session.read).options(**options).table(name)

    def is_view(self, name: str) -> bool:
        return self.reads.is_view(name)

    def schemas(self) -> SchemaStore:
        return self.reads.schemas()


def with_file(frame: DataFrame) -> DataFrame:
    """Return a query's rows with `FILE`, the path of each row's file; NULL if rows are not read from files directly."""
    unknown = F.lit(None).cast("string").alias(FILE)
    if not _reads_files(frame):
        return frame.select("*", unknown)
    try:
        return frame.select("*", F.col("_metadata.file_path").alias(FILE))
    except AnalysisException:  # the query itself has a column with this name
        return frame.select("*", unknown)


def _reads_files(frame: DataFrame) -> bool:
    node = analysed_plan(frame)
    while node_name(node) in _ROW_BY_ROW:
        node = node.children().head()
    return node_name(node) == "StreamingRelation" and str(node.sourceName()).startswith(_FILES)
