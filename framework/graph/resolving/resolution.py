"""Resolves declarations to the dataflow graph: calls each query function once, on stand-ins.

A read of another dataset resolves that dataset first, so one pass is enough for any order of
declaration. A read of a dataset that is still being resolved is a cycle. All faults are gathered and
raised together.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType, TimestampType

from framework.declare.interface.queries import display_name
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.engine.jvm.java import keep_classes_of_pyspark
from framework.engine.plans.relations import named, stand_in
from framework.engine.registry.session_check import session_warning
from framework.engine.sessions.execution import active_session
from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError
from framework.foundation.locations import caller_location
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import plain_path
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read, flow_settings, views_read
from framework.graph.kept_analyses import KeptAnalysis
from framework.graph.kinds import check_view_read, dataset_kind, query_type_error
from framework.graph.queries.analysed_query import AnalysedQuery
from framework.graph.queries.calls import (
    SPARK_ERRORS,
    UpstreamInvalidError,
    UpstreamUnreadError,
    call_query,
    check_catalog_reads,
    deep_recursion,
)
from framework.graph.queries.known_analyses import KnownAnalyses
from framework.graph.queries.option_effects import option_warnings
from framework.graph.queries.partition_times import partition_warnings
from framework.graph.queries.settings import SessionSettings
from framework.graph.reading.interception import reading
from framework.graph.reading.schemas import reads_changes, without_hidden
from framework.graph.reading.stand_ins import StandIns
from framework.graph.resolved import Resolved, ResolvedFlow
from framework.graph.resolving.analysis import Analysis
from framework.graph.resolving.feed_sequences import sequence_warnings
from framework.graph.resolving.gathered_faults import GatheredFaults
from framework.graph.resolving.grouped_streams import may_be_a_view
from framework.graph.resolving.snapshots import snapshot_shape
from framework.graph.resolving.streamed_views import streamed_view_warnings
from framework.graph.rules import COMPLETE_ONLY, RULES, names_in
from framework.graph.target_tables.delta_sinks import delta_sinks, place_sinks
from framework.graph.target_tables.table_properties import delta_properties
from framework.graph.target_tables.tables import KnownTables, missing_table
from framework.graph.target_tables.targets import check_expectations, may_widen, table_target
from framework.sources.cloud_files.columns.schemas import SchemaStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolution:
    """One analysis of a registry; `resolve` is called once.

    Args:
        pipeline: the pipeline's name.
        registry: the declarations of the modules.
        spark: the session for the analysis; nothing runs in it.
        tables: the tables that exist.
        code_version: hash of the modules' source; None if it is unknown.
        kept: analyses of earlier updates, by dataset; reused if all that they depend on is unchanged.
        ignore_stored: whether to ignore the stored table of a dataset because it will be rebuilt.
    """

    pipeline: str
    registry: Registry
    spark: SparkSession
    tables: KnownTables
    code_version: str | None
    kept: Mapping[QualifiedName, KeptAnalysis] = field(default_factory=dict)
    ignore_stored: Callable[[QualifiedName], bool] = lambda _name: False
    _path: list[QualifiedName] = field(default_factory=list)
    _faulty: set[QualifiedName] = field(default_factory=set)
    _analyses: list[Analysis] = field(default_factory=list)
    _reads: dict[QualifiedName, list[Read]] = field(default_factory=dict)
    _grouped: set[QualifiedName] = field(default_factory=set)
    _notes: list[UserError] = field(default_factory=list)
    _resolved: Resolved = field(init=False)
    _faults: GatheredFaults = field(init=False)
    _folders: Mapping[str, QualifiedName] = field(init=False)
    _settings: SessionSettings = field(init=False)
    _stand_ins: StandIns = field(init=False)
    _known: KnownAnalyses = field(init=False)
    _of_sinks: list[UserError] = field(init=False)

    def __post_init__(self) -> None:
        """Record the session's settings outside of analyses, and give sinks their folders."""
        object.__setattr__(self, "_of_sinks", [*delta_sinks(self.registry)])
        place_sinks(self.registry, self.tables, self.spark)
        object.__setattr__(self, "_resolved", Resolved.nothing_of(self.registry))
        object.__setattr__(self, "_faults", GatheredFaults(registry=self.registry, resolved=self._resolved))
        tables = {
            plain_path(self.tables.path(spec)): spec.name for spec in self.registry.datasets if spec.kind.is_table
        }
        object.__setattr__(self, "_folders", tables)
        object.__setattr__(self, "_settings", SessionSettings(self.spark))
        object.__setattr__(self, "_stand_ins", StandIns(spark=self.spark))
        object.__setattr__(self, "_known", KnownAnalyses.of(self.spark, self.registry.generated, self.kept))

    def resolve(self, only: Collection[QualifiedName] | None = None) -> DataflowGraph:
        """Return the graph of all declarations, or of some datasets and of all that they read.

        Raises:
            GraphErrors: all faults of the declarations and of the queries.
        """
        keep_classes_of_pyspark()
        self._faults.add(*self.registry.faults)
        broken = [error for rule in (*RULES, delta_properties) for error in rule(self.registry)] + self._of_sinks
        if self.registry.is_incomplete:
            broken = [error for error in broken if error.condition not in COMPLETE_ONLY]
        spoilt = self.registry.spoilt
        # A declaration with invalid arguments is incomplete, so it is not checked against the rules.
        self._faults.add(*(error for error in broken if not spoilt & names_in(error)))
        # A dataset that breaks a rule gets no kind and no schema; its queries are still analysed.
        self._faulty.update(spoilt, (name for error in broken for name in names_in(error)))
        # Spark builds expressions, such as casts, with the settings of the thread's session.
        with reading(self), active_session(self.spark), deep_recursion():
            for name in self._resolved.specs if only is None else only:
                self._dataset(name)
            for flow in self.registry.flows if only is None else ():
                if flow.target not in self._resolved.specs:
                    self._flow(DatasetSpec(name=flow.target, kind=DatasetKind.STREAMING_TABLE), flow)
        self._faults.raise_all()
        resolved = self._resolved
        graph = DataflowGraph(
            pipeline=self.pipeline,
            datasets=tuple(one for name in resolved.specs if (one := resolved.datasets.get(name)) is not None),
            flows=resolved.graph_flows(self.registry.flows),
            analyses=self._known.used,
            lacking=dict(self.registry.lacking),
            is_partial=bool(self.registry.unlisted) or self._has_unread(),
        )
        # The queries of ingestions read no feed, and reused analyses have no columns here.
        sequences = sequence_warnings(
            flow for name, flow in resolved.flows.items() if name not in self.registry.generated
        )
        warnings = (*partition_warnings(graph, self.spark), *option_warnings(graph, self.tables.schemas()), *sequences)
        told = (*streamed_view_warnings(graph), *graph.lacking.values(), *self.registry.refreshed.values())
        session = filter(None, (session_warning(self.spark),))
        return replace(graph, warnings=(*session, *self.registry.notes, *self._notes, *warnings, *told))

    def _has_unread(self) -> bool:
        """Whether a flow may have unknown reads. The queries of ingestions read nothing of the pipeline."""
        found = (each for each in self._resolved.datasets.values() if each is not None and each.is_unresolved)
        return any(each.name not in self.registry.isolated for each in found)

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        """Return a DataFrame without rows for a dataset, or an external table; record the read as an edge."""
        streaming = streaming and not self._reads_rows()
        dataset = None if "/" in name else self._full_name(name)
        if dataset is not None and dataset in self._resolved.specs:
            return self._read_dataset(name, dataset, options, streaming=streaming)
        if dataset is not None and dataset in self.registry.spoilt:
            raise UpstreamInvalidError(str(dataset))
        found = self.tables.external(spark, name, options, streaming=streaming)
        if dataset is not None and self.registry.may_lack(dataset) and (found is None or found.path is not None):
            raise UpstreamUnreadError(dataset)
        if found is None and self.registry.is_incomplete:
            raise UpstreamInvalidError(name)  # a module that raised may declare it
        if found is None:
            raise missing_table(name, dataset=dataset, known=self._resolved.specs, tables=self.tables, spark=spark)
        self._record(Read(text=name, streaming=streaming, path=found.path, options=tuple(sorted(options.items()))))
        return found.frame

    def is_view(self, name: str) -> bool:
        """Return whether a name is the name of a temporary view of the pipeline."""
        spec = self._resolved.specs.get(self._full_name(name))
        return spec is not None and spec.kind is DatasetKind.TEMPORARY_VIEW

    def schemas(self) -> SchemaStore:
        """Return the recorded columns of folders of files."""
        return self.tables.schemas()

    def _full_name(self, name: str) -> QualifiedName:
        try:
            return self.registry.name(name)
        except UserError as error:
            raise error.at(caller_location()) from error

    def _read_dataset(
        self, text: str, name: QualifiedName, options: Mapping[str, str], *, streaming: bool
    ) -> DataFrame:
        resolved = self._dataset(name)
        if resolved is None:
            raise UpstreamInvalidError(str(name))
        if resolved.is_sink:
            raise UserError("PIPELINE_SINK_READ", location=caller_location(), sink=name)
        if resolved.fault is not None and resolved.kind is DatasetKind.TEMPORARY_VIEW:
            raise resolved.fault  # the view's query is a part of its reader's query
        read = Read(text=text, streaming=streaming, dataset=name, options=tuple(sorted(options.items())))
        if resolved.is_unresolved and resolved.schema is None:  # without a schema, its readers can't be analysed
            self._record(read)
            raise UpstreamUnreadError(*(resolved.waits_for or (name,)))
        if resolved.kind is DatasetKind.TEMPORARY_VIEW:
            return self._read_view(name, read)
        self._record(read)
        return self._stand_ins.read(name, resolved.schema, change_feed=reads_changes(options), streaming=streaming)

    def _read_view(self, name: QualifiedName, read: Read) -> DataFrame:
        view = self._resolved.view(name)
        if view is None:
            raise UpstreamInvalidError(str(name))
        reads_rows = self._reads_rows()
        if not reads_rows:
            check_view_read(name, self.spark, view_streams=view.flow.streaming, read_streams=read.streaming)
        reads = (read, *(replace(each, streaming=each.streaming and not reads_rows) for each in view.flow.reads))
        is_again = any(self._resolved.is_view(each.dataset) and self._has_read(each.dataset) for each in reads)
        for each in reads:
            self._record(each)
        present = self._settings.present
        # Each read gets its own columns. The view's query runs with the reader's settings. If they are not final yet,
        # the reader is analysed again.
        if not (is_again or reads_rows) and (present == view.settings or not self._knows(present)):
            return named(view.frame, name)
        spec = view.flow.spec
        return named(call_query(self._query(spec), spec.name, spec.location), name)

    def _has_read(self, dataset: QualifiedName | None) -> bool:
        return any(read.dataset == dataset for read in self._analyses[-1].reads)

    def _record(self, read: Read) -> None:
        if self._analyses and read not in self._analyses[-1].reads:
            self._analyses[-1].reads.append(read)

    def _reads_rows(self) -> bool:
        return bool(self._analyses) and self._analyses[-1].reads_rows

    def _knows(self, settings: Mapping[str, str]) -> bool:
        """Whether the settings in use include the settings of all views that the query reads."""
        return self._analyses[-1].is_final or settings == self._flow_settings()

    def _flow_settings(self) -> dict[str, str]:
        """The settings of the flow that is being analysed, as far as its reads so far determine them."""
        analysis = self._analyses[-1]
        return flow_settings(analysis.flow, analysis.reads, self._resolved.specs)

    def _dataset(self, name: QualifiedName) -> GraphDataset | None:
        """The resolved dataset; None if it or one of its inputs has a fault."""
        if name in self._resolved.datasets:
            return self._resolved.datasets[name]
        if name in self._path:
            cycle = [*self._path[self._path.index(name) :], name]
            raise UserError(
                "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED",
                location=caller_location(),
                cycle=" -> ".join(str(part) for part in cycle),
            )
        self._path.append(name)
        try:
            spec = self._resolved.specs[name]
            self._resolved.datasets[name] = self._resolve_dataset(spec) or self._failed_dataset(spec)
        finally:
            self._path.pop()
        return self._resolved.datasets[name]

    def _resolve_dataset(self, spec: DatasetSpec) -> GraphDataset | None:
        specs = self._resolved.into.get(spec.name, [])
        key = None if spec.name in self._faulty else self._known.key(spec, specs, self._dataset)
        stored = None if key is None else self._stored_text(spec.name)
        recalled = self._known.recall(key, stored, spec, specs)
        if recalled is not None:
            self._resolved.flows.update((flow.spec.name, self._without_query(flow)) for flow in recalled[1])
            return recalled[0]
        flows = [self._flow(spec, flow) for flow in specs]
        resolved = [flow for flow in flows if flow is not None]
        if len(resolved) < len(specs) or spec.name in self._faulty or not (specs or spec.kind.is_sink):
            return None
        try:
            dataset = self._typed(spec, resolved)
        except (SluiceError, *SPARK_ERRORS) as error:
            self._gather(error, spec)
            return None
        if dataset is not None:
            self._known.keep(key, stored, dataset, [flow.flow for flow in resolved])
        return dataset

    def _without_query(self, flow: GraphFlow) -> ResolvedFlow:
        """Return a flow without analysing its query, for one whose rows no flow reads."""
        return ResolvedFlow(flow=flow, frame=self._stand_ins.without_columns(), settings={})

    def _failed_dataset(self, spec: DatasetSpec) -> GraphDataset | None:
        """Return a dataset that fails alone or waits for one, with its stored schema; None if it fails the pipeline."""
        fault, waits_for = self._faults.isolated.get(spec.name), self._faults.waiting.get(spec.name, ())
        if fault is None and not waits_for:
            return None
        for flow in self._resolved.into[spec.name]:
            reads = tuple(self._reads.get(flow.name, ()))
            self._resolved.flows[flow.name] = self._without_query(GraphFlow(spec=flow, reads=reads))
        stored = known = None
        with suppress(OperationError):  # the record of the table may be the unreadable part
            stored, known = self.tables.stored_schema(spec.name), self.tables.stored_kind(spec.name)
        schema = None if stored is None else without_hidden(StructType.fromJson(json.loads(stored))).json()
        kind = spec.kind if spec.kind is not DatasetKind.TABLE else known or spec.kind
        if fault is not None:
            return GraphDataset(spec=spec, kind=kind, schema=schema, fault=fault)
        return GraphDataset(spec=spec, kind=kind, schema=schema, waits_for=waits_for)

    def _typed(self, spec: DatasetSpec, resolved: list[ResolvedFlow]) -> GraphDataset | None:
        """Return the dataset with kind and schema; None if a query has the wrong kind or an expectation is invalid."""
        flows = [flow.flow for flow in resolved]
        kind = DatasetKind.MATERIALIZED_VIEW if spec.name in self._grouped else dataset_kind(spec, flows)
        stored = self._stored_schema(spec.name)
        dataset = GraphDataset(spec=spec, kind=kind, widens=may_widen(spec, flows, self._resolved.datasets))
        errors = [error for flow in flows if (error := query_type_error(dataset, flow))]
        if errors:
            self._faults.add(*errors)
            return None
        valid = sum(not self._meets_expectations(spec, flow) for flow in resolved) == 0
        if not dataset.is_sink:
            versions = {flow.flow.spec.name: flow.versions for flow in resolved if flow.versions is not None}
            settings = dict(ChainMap(*(dict(flow.settings) for flow in resolved)))
            with self._settings.applied(settings):
                dataset = table_target(dataset, [(flow.flow.spec, flow.frame) for flow in resolved], stored, versions)
        return dataset if valid else None

    def _meets_expectations(self, spec: DatasetSpec, flow: ResolvedFlow) -> bool:
        """Whether all expectations are valid; faults are gathered, not raised, so the schema is still checked."""
        try:
            with self._settings.applied(flow.settings):
                check_expectations(spec, flow.flow.spec, flow.frame)
        except GraphErrors as error:
            self._gather(error, spec)
            return False
        return True

    def _stored_schema(self, name: QualifiedName) -> StructType | None:
        text = self._stored_text(name)
        return None if text is None else StructType.fromJson(json.loads(text))

    def _stored_text(self, name: QualifiedName) -> str | None:
        return None if self.ignore_stored(name) else self.tables.stored_schema(name)

    def _flow(self, dataset: DatasetSpec, spec: FlowSpec) -> ResolvedFlow | None:
        """Return the analysed flow; None if it has a fault, which is gathered."""
        if spec.name in self._resolved.flows:
            return self._resolved.flows[spec.name]
        self._resolved.flows[spec.name] = None
        self._analyses.append(Analysis(flow=spec))
        try:
            is_handed_out = spec.name in self.registry.snapshot_functions
            flow = self._handing_out(spec) if is_handed_out else self._stream_or_view(dataset, spec)
            self._resolved.flows[spec.name] = flow
        except UpstreamUnreadError as error:
            self._faults.wait(spec.target, error.names)
        except UpstreamInvalidError:
            pass
        except (SluiceError, *SPARK_ERRORS) as error:
            self._gather(error, spec)
        finally:
            self._reads[spec.name] = self._analyses.pop().reads
        return self._resolved.flows[spec.name]

    def _stream_or_view(self, dataset: DatasetSpec, spec: FlowSpec) -> ResolvedFlow:
        """Return the analysed flow; a stream that is grouped without a watermark becomes the query of a view."""
        try:
            return self._analysed(dataset, spec)
        except UserError as error:
            before = self._analyses[-1]
            is_only = len(self._resolved.into.get(dataset.name, ())) == 1
            if not (is_only and may_be_a_view(error, dataset, spec, before.reads)):
                raise
            self._analyses[-1] = Analysis(flow=spec, reads_rows=True)
            flow = self._analysed(dataset, spec)
            if flow.flow.streaming:  # it also reads a stream that is not a table
                self._analyses[-1] = before
                raise
            self._grouped.add(dataset.name)
            note = UserError("STREAM_GROUPED_AS_VIEW", location=spec.location, flow=spec.name, dataset=dataset.name)
            self._notes.append(note)
            return flow

    def _analysed(self, dataset: DatasetSpec, spec: FlowSpec) -> ResolvedFlow:
        """Return the flow, analysed with its settings; the settings of views are known only after it has read them."""
        settings = self._flow_settings()
        try:
            resolved = self._analysed_with(settings, dataset, spec)
        except (SluiceError, *SPARK_ERRORS):
            if self._flow_settings() == settings:
                raise
        else:
            if self._flow_settings() == settings:
                return resolved
        settings = self._flow_settings()
        self._analyses[-1] = replace(self._analyses[-1], is_final=True, reads=[])
        return self._analysed_with(settings, dataset, spec)

    def _analysed_with(self, settings: Mapping[str, str], dataset: DatasetSpec, spec: FlowSpec) -> ResolvedFlow:
        with self._settings.applied(settings):
            frame = call_query(self._query(spec), spec.name, spec.location)
            reads = tuple(self._analyses[-1].reads)
            flows = [(view, self._resolved.view(view.name)) for view in views_read(reads, self._resolved.specs)]
            analysed = AnalysedQuery(
                frame=frame, flow=spec, target=dataset, reads=reads, settings=self._settings,
                views=[(view, each.frame) for view, each in flows if each is not None],
            )  # fmt: skip
            flow = analysed.graph_flow(self._resolved.specs, self.code_version, self.tables.file_identity)
            check_catalog_reads(frame, flow, reads, self._folders)
            versions = TimestampType() if spec.from_snapshots else None
            return ResolvedFlow(flow=flow, frame=frame, settings=settings, versions=versions)

    def _handing_out(self, spec: FlowSpec) -> ResolvedFlow:
        """Return a flow of a snapshot function, with the schema of its stored target or of its first snapshot."""
        function = self.registry.snapshot_functions[spec.name]
        with self._settings.applied({}):  # it runs with the pipeline's settings, not its reader's
            shape = snapshot_shape(function, spec, self._stored_schema(spec.target))
        read = Read(text=f"{display_name(function)}()", streaming=False)
        flow = GraphFlow(spec=spec, reads=(read,), schema=shape.schema.json())
        frame = stand_in(self.spark, shape.schema, streaming=False)
        return ResolvedFlow(flow=flow, frame=frame, settings={}, versions=shape.versions)

    def _query(self, spec: FlowSpec) -> Callable[[], DataFrame]:
        """Return the flow's query function, or the read of its named source."""
        return self.registry.queries.get(spec.name) or (lambda: self.source_frame(spec))

    def source_frame(self, spec: FlowSpec) -> DataFrame:
        """Return the rows of an AUTO CDC flow's named source.

        They are a stream, except for snapshots and for a once flow unless its source is a streaming view.
        """
        source = spec.source or ""
        name = self.registry.name(source)
        batch = spec.once or spec.from_snapshots
        if self._resolved.is_view(name):
            self._dataset(name)
            view = self._resolved.view(name)
            batch = spec.from_snapshots or (spec.once and view is not None and not view.flow.streaming)
        try:
            return self.read(self.spark, source, {}, streaming=not batch)
        except SluiceError as error:  # no user code makes this read, so the error is at the declaration
            raise error.at(spec.location) from error

    def _gather(self, error: Exception, spec: FlowSpec | DatasetSpec) -> None:
        reads = self._analyses[-1].reads if isinstance(spec, FlowSpec) else self._resolved.reads_into(spec.name)
        self._faults.gather(error, spec, reads)
