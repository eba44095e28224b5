"""Resolves declarations to the dataflow graph: calls each query function once, on stand-ins.

A read of another dataset resolves that dataset first, so one pass is enough for any order of
declaration. A read of a dataset that is still being resolved is a cycle. All faults are gathered and
raised together.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType, TimestampType

from framework.declare.queries import display_name
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError, UserErrors
from framework.foundation.locations import caller_location
from framework.foundation.names import QualifiedName
from framework.graph.analysed_query import AnalysedQuery
from framework.graph.calls import (
    SPARK_ERRORS,
    UpstreamInvalidError,
    call_query,
    deep_recursion,
    is_of_columns,
    query_failed,
    unfollowed_read,
)
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read, flow_settings, views_read
from framework.graph.interception import reading
from framework.graph.kept_analyses import KeptAnalysis
from framework.graph.kinds import check_view_read, dataset_kind, query_type_error
from framework.graph.known_analyses import KnownAnalyses
from framework.graph.relations import StandIns, named, stand_in
from framework.graph.rules import COMPLETE_ONLY, OF_ALL_FLOWS, RULES, names_in
from framework.graph.schemas import reads_changes, without_hidden
from framework.graph.settings import SessionSettings
from framework.graph.snapshots import snapshot_shape
from framework.graph.tables import KnownTables, missing_table
from framework.graph.targets import check_expectations, may_widen, table_target
from framework.sources.cloud_files.schemas import SchemaStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ResolvedFlow:
    flow: GraphFlow
    frame: DataFrame
    settings: Mapping[str, str]
    versions: DataType | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Analysis:
    """The analysis of one flow's query, and the reads that it has made so far.

    Args:
        is_final: whether the settings of all views that the query reads are in use.
    """

    flow: FlowSpec
    is_final: bool = False
    reads: list[Read] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolution:
    """One analysis of a registry; `resolve` is called once.

    Args:
        pipeline: the pipeline's name.
        registry: the declarations of the modules.
        spark: the session for the analysis; nothing runs in it.
        tables: the tables that exist.
        code_version: hash of the modules' source; None if it is unknown.
        kept: analyses of earlier updates, by dataset; used where nothing changed that they depend on.
        ignore_stored: whether to ignore the stored table of a dataset because it will be rebuilt.
    """

    pipeline: str
    registry: Registry
    spark: SparkSession
    tables: KnownTables
    code_version: str | None
    kept: Mapping[QualifiedName, KeptAnalysis] = field(default_factory=dict)
    ignore_stored: Callable[[QualifiedName], bool] = lambda _name: False
    _errors: list[SluiceError] = field(default_factory=list)
    _datasets: dict[QualifiedName, GraphDataset | None] = field(default_factory=dict)
    _flows: dict[QualifiedName, _ResolvedFlow | None] = field(default_factory=dict)
    _specs: dict[QualifiedName, DatasetSpec] = field(default_factory=dict)
    _into: dict[QualifiedName, list[FlowSpec]] = field(default_factory=dict)
    _path: list[QualifiedName] = field(default_factory=list)
    _faulty: set[QualifiedName] = field(default_factory=set)
    _isolated: dict[QualifiedName, SluiceError] = field(default_factory=dict)
    _analyses: list[_Analysis] = field(default_factory=list)
    _settings: SessionSettings = field(init=False)
    _stand_ins: StandIns = field(init=False)
    _known: KnownAnalyses = field(init=False)

    def __post_init__(self) -> None:
        """Note the settings that the session has outside of analyses."""
        object.__setattr__(self, "_settings", SessionSettings(self.spark))
        object.__setattr__(self, "_stand_ins", StandIns(spark=self.spark))
        object.__setattr__(self, "_known", KnownAnalyses.of(self.spark, self.registry.generated, self.kept))

    def resolve(self) -> DataflowGraph:
        """Return the graph of all declarations.

        Raises:
            GraphErrors: all faults of the declarations and of the queries.
        """
        self._errors.extend(self.registry.faults)
        broken = [error for rule in RULES for error in rule(self.registry)]
        if self.registry.is_incomplete:
            broken = [error for error in broken if error.condition not in COMPLETE_ONLY]
        spoilt = self.registry.spoilt
        # A declaration with invalid arguments is incomplete, so a rule that it breaks is not a fault of its own.
        self._errors.extend(error for error in broken if not spoilt & names_in(error))
        # A dataset that breaks a rule gets no kind and no schema; its queries are still analysed.
        self._faulty.update(spoilt, (name for error in broken for name in names_in(error)))
        self._specs.update((spec.name, spec) for spec in self.registry.datasets)
        for flow in self.registry.flows:
            self._into.setdefault(flow.target, []).append(flow)
        with reading(self), deep_recursion():
            for spec in self.registry.datasets:
                self._dataset(spec.name)
            for flow in self.registry.flows:
                if flow.target not in self._specs:
                    self._flow(DatasetSpec(name=flow.target, kind=DatasetKind.STREAMING_TABLE), flow)
        self._raise_errors()
        return DataflowGraph(
            pipeline=self.pipeline,
            datasets=tuple(one for spec in self.registry.datasets if (one := self._datasets[spec.name]) is not None),
            flows=tuple(found.flow for spec in self.registry.flows if (found := self._flows[spec.name]) is not None),
            analyses=self._known.used,
        )

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        """Return a DataFrame without rows for a dataset, or an external table; record the read as an edge."""
        dataset = None if "/" in name else self._full_name(name)
        if dataset is not None and dataset in self._specs:
            return self._read_dataset(name, dataset, options, streaming=streaming)
        if dataset is not None and dataset in self.registry.spoilt:
            raise UpstreamInvalidError(str(dataset))
        found = self.tables.external(spark, name, options, streaming=streaming)
        if found is None and self.registry.is_incomplete:
            raise UpstreamInvalidError(name)  # a module that raised may declare it
        if found is None:
            raise missing_table(name, dataset=dataset, known=self._specs, tables=self.tables, spark=spark)
        self._record(Read(text=name, streaming=streaming, path=found.path, options=tuple(sorted(options.items()))))
        return found.frame

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
        if resolved.fault is not None and resolved.schema is None:  # without a schema, its readers can't be analysed
            self._errors.append(resolved.fault)
            raise UpstreamInvalidError(str(name))
        read = Read(text=text, streaming=streaming, dataset=name, options=tuple(sorted(options.items())))
        if resolved.kind is DatasetKind.TEMPORARY_VIEW:
            return self._read_view(name, read)
        self._record(read)
        return self._stand_ins.read(name, resolved.schema, change_feed=reads_changes(options), streaming=streaming)

    def _read_view(self, name: QualifiedName, read: Read) -> DataFrame:
        view = self._flows[self._into[name][0].name]
        if view is None:
            raise UpstreamInvalidError(str(name))
        check_view_read(name, view_streams=view.flow.streaming, read_streams=read.streaming)
        reads = (read, *view.flow.reads)
        is_again = any(self._is_view(each.dataset) and self._has_read(each.dataset) for each in reads)
        for each in reads:
            self._record(each)
        present = self._settings.present
        # Each read has columns of its own. The view's query has the reader's settings; if they are not known yet, the
        # reader is analysed again.
        if not is_again and (present == view.settings or not self._knows(present)):
            return named(view.frame, name)
        spec = view.flow.spec
        return named(call_query(self._query(spec), spec.name, spec.location), name)

    def _is_view(self, name: QualifiedName | None) -> bool:
        return name is not None and name in self._specs and self._specs[name].kind is DatasetKind.TEMPORARY_VIEW

    def _has_read(self, dataset: QualifiedName | None) -> bool:
        return any(read.dataset == dataset for read in self._analyses[-1].reads)

    def _record(self, read: Read) -> None:
        if self._analyses and read not in self._analyses[-1].reads:
            self._analyses[-1].reads.append(read)

    def _knows(self, settings: Mapping[str, str]) -> bool:
        """Whether the settings in use are those of all views that the query reads."""
        return self._analyses[-1].is_final or settings == self._flow_settings()

    def _flow_settings(self) -> dict[str, str]:
        """The settings of the flow that is analysed, as far as the reads so far show."""
        analysis = self._analyses[-1]
        return flow_settings(analysis.flow, analysis.reads, self._specs)

    def _dataset(self, name: QualifiedName) -> GraphDataset | None:
        """The resolved dataset; None if it or one of its inputs has a fault."""
        if name in self._datasets:
            return self._datasets[name]
        if name in self._path:
            cycle = [*self._path[self._path.index(name) :], name]
            raise UserError(
                "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED",
                location=caller_location(),
                cycle=" -> ".join(str(part) for part in cycle),
            )
        self._path.append(name)
        try:
            self._datasets[name] = self._resolve_dataset(self._specs[name]) or self._failed_dataset(self._specs[name])
        finally:
            self._path.pop()
        return self._datasets[name]

    def _resolve_dataset(self, spec: DatasetSpec) -> GraphDataset | None:
        specs = self._into.get(spec.name, [])
        key = None if spec.name in self._faulty else self._known.key(spec, specs, self._dataset)
        stored = None if key is None else self._stored_text(spec.name)
        recalled = self._known.recall(key, stored, spec, specs)
        if recalled is not None:
            self._flows.update((flow.spec.name, self._without_query(flow)) for flow in recalled[1])
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

    def _without_query(self, flow: GraphFlow) -> _ResolvedFlow:
        """A flow whose query is not analysed now; nothing reads its rows."""
        return _ResolvedFlow(flow=flow, frame=self._stand_ins.without_columns(), settings={})

    def _failed_dataset(self, spec: DatasetSpec) -> GraphDataset | None:
        """An isolated dataset with its fault and its stored schema; None if the whole pipeline has the fault."""
        if spec.name not in self._isolated:
            return None
        for flow in self._into[spec.name]:
            self._flows[flow.name] = self._without_query(GraphFlow(spec=flow))
        stored = self.tables.stored_schema(spec.name)
        schema = None if stored is None else without_hidden(StructType.fromJson(json.loads(stored))).json()
        return GraphDataset(spec=spec, kind=spec.kind, schema=schema, fault=self._isolated[spec.name])

    def _typed(self, spec: DatasetSpec, resolved: list[_ResolvedFlow]) -> GraphDataset | None:
        """The dataset with its kind and schema; None if a query is of the wrong kind or an expectation is invalid."""
        flows = [flow.flow for flow in resolved]
        kind = dataset_kind(spec, flows)
        stored = self._stored_schema(spec.name)
        dataset = GraphDataset(spec=spec, kind=kind, widens=may_widen(spec, flows, self._datasets))
        errors = [error for flow in flows if (error := query_type_error(dataset, flow))]
        if errors:
            self._errors.extend(errors)
            return None
        valid = sum(not self._meets_expectations(spec, flow) for flow in resolved) == 0
        if not dataset.is_sink:
            versions = {flow.flow.spec.name: flow.versions for flow in resolved if flow.versions is not None}
            settings = dict(ChainMap(*(dict(flow.settings) for flow in resolved)))
            with self._settings.applied(settings):
                dataset = table_target(dataset, [(flow.flow.spec, flow.frame) for flow in resolved], stored, versions)
        return dataset if valid else None

    def _meets_expectations(self, spec: DatasetSpec, flow: _ResolvedFlow) -> bool:
        """Whether all expectations are valid; faults are gathered, so that the schema is still checked."""
        try:
            with self._settings.applied(flow.settings):
                check_expectations(spec, flow.frame)
        except GraphErrors as error:
            self._gather(error, spec)
            return False
        return True

    def _stored_schema(self, name: QualifiedName) -> StructType | None:
        text = self._stored_text(name)
        return None if text is None else StructType.fromJson(json.loads(text))

    def _stored_text(self, name: QualifiedName) -> str | None:
        return None if self.ignore_stored(name) else self.tables.stored_schema(name)

    def _flow(self, dataset: DatasetSpec, spec: FlowSpec) -> _ResolvedFlow | None:
        """The analysed flow; None if it has a fault, which is gathered."""
        if spec.name in self._flows:
            return self._flows[spec.name]
        self._flows[spec.name] = None
        self._analyses.append(_Analysis(flow=spec))
        try:
            is_handed_out = spec.name in self.registry.snapshot_functions
            self._flows[spec.name] = self._handing_out(spec) if is_handed_out else self._analysed(dataset, spec)
        except UpstreamInvalidError:
            pass
        except (SluiceError, *SPARK_ERRORS) as error:
            self._gather(error, spec)
        finally:
            self._analyses.pop()
        return self._flows[spec.name]

    def _analysed(self, dataset: DatasetSpec, spec: FlowSpec) -> _ResolvedFlow:
        """The flow, analysed with its settings; those of views are known only when it has read the views."""
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
        self._analyses[-1] = _Analysis(flow=spec, is_final=True)
        return self._analysed_with(settings, dataset, spec)

    def _analysed_with(self, settings: Mapping[str, str], dataset: DatasetSpec, spec: FlowSpec) -> _ResolvedFlow:
        with self._settings.applied(settings):
            frame = call_query(self._query(spec), spec.name, spec.location)
            reads = tuple(self._analyses[-1].reads)
            flows = [(view, self._flows[self._into[view.name][0].name]) for view in views_read(reads, self._specs)]
            analysed = AnalysedQuery(
                frame=frame, flow=spec, target=dataset, reads=reads, settings=settings,
                views=[(view, each.frame) for view, each in flows if each is not None],
            )  # fmt: skip
            flow = analysed.graph_flow(self._specs, self.code_version, self.tables.file_identity)
            versions = TimestampType() if spec.from_snapshots else None
            return _ResolvedFlow(flow=flow, frame=frame, settings=settings, versions=versions)

    def _handing_out(self, spec: FlowSpec) -> _ResolvedFlow:
        """A flow from a snapshot function, with the schema of its stored target or of its first snapshot."""
        function = self.registry.snapshot_functions[spec.name]
        with self._settings.applied({}):  # it runs with the pipeline's settings, and not with those of its reader
            shape = snapshot_shape(function, spec, self._stored_schema(spec.target))
        read = Read(text=f"{display_name(function)}()", streaming=False)
        flow = GraphFlow(spec=spec, reads=(read,), schema=shape.schema.json())
        frame = stand_in(self.spark, shape.schema, streaming=False)
        return _ResolvedFlow(flow=flow, frame=frame, settings={}, versions=shape.versions)

    def _query(self, spec: FlowSpec) -> Callable[[], DataFrame]:
        """The flow's query function, or the read of its named source."""
        return self.registry.queries.get(spec.name) or (lambda: self.source_frame(spec))

    def source_frame(self, spec: FlowSpec) -> DataFrame:
        """The rows of an AUTO CDC flow's named source.

        They are a stream, except for snapshots and for a once flow whose source is not a streaming view.
        """
        source = spec.source or ""
        name = self.registry.name(source)
        batch = spec.once or spec.from_snapshots
        if self._is_view(name):
            self._dataset(name)
            view = self._flows.get(self._into[name][0].name)
            batch = spec.from_snapshots or (spec.once and view is not None and not view.flow.streaming)
        try:
            return self.read(self.spark, source, {}, streaming=not batch)
        except SluiceError as error:  # no user code makes this read: the location is that of the declaration
            raise error.at(spec.location) from error

    def _gather(self, error: Exception, spec: FlowSpec | DatasetSpec) -> None:
        """Add an error to the gathered ones, with its own location or that of its declaration.

        Raises:
            OperationError: the error is not one of the declarations.
        """
        error = unfollowed_read(error, spec.name, self.registry) or error
        target = spec.target if isinstance(spec, FlowSpec) else spec.name
        if target in self.registry.isolated:
            found = error if isinstance(error, SluiceError) else query_failed(error, spec.name, spec.location)
            self._isolated.setdefault(target, found if found.location else found.at(spec.location))
            return
        if isinstance(error, OperationError):
            raise error
        for each in error.errors if isinstance(error, UserErrors) else (error,):
            if self.registry.is_incomplete and self._may_be_consequence(each, spec):
                continue
            if isinstance(each, SluiceError):
                self._errors.append(each if each.location else each.at(spec.location))
            else:
                self._errors.append(query_failed(each, spec.name, spec.location))

    def _may_be_consequence(self, error: Exception, spec: FlowSpec | DatasetSpec) -> bool:
        """Whether an error may be due to a column that a flow of a module that raised adds."""
        if isinstance(spec, FlowSpec):
            return is_of_columns(error) and self._may_lack_columns(self._reads_of(spec))
        condition = error.condition if isinstance(error, SluiceError) else None
        takes_more = condition in OF_ALL_FLOWS and self._takes_more_flows(spec)
        return takes_more or (condition != "INVALID_SCHEMA" and self._may_lack_columns(self._reads_of(spec)))

    def _takes_more_flows(self, spec: DatasetSpec) -> bool:
        """Whether another module may declare further flows into a dataset, all of whose known flows are valid."""
        flows = [flow.flow for each in self._into.get(spec.name, ()) if (flow := self._flows[each.name]) is not None]
        return dataset_kind(spec, flows) is DatasetKind.STREAMING_TABLE

    def _reads_of(self, spec: FlowSpec | DatasetSpec) -> list[Read]:
        """The reads of the flow that is analysed, or of all flows into a dataset."""
        if isinstance(spec, FlowSpec):
            return self._analyses[-1].reads
        flows = [self._flows.get(flow.name) for flow in self._into.get(spec.name, ())]
        return [read for flow in flows if flow is not None for read in flow.flow.reads]

    def _may_lack_columns(self, reads: Sequence[Read]) -> bool:
        """Whether a module that raised may declare a table that is read, or further flows into it.

        Then the analysed schema of the table may lack columns, and an error of its reader may be a consequence.
        """
        for read in reads:
            if read.dataset is None:
                if read.path is not None:  # a table in the pipeline's storage, as an earlier update left it
                    return True
                continue
            dataset = self._datasets.get(read.dataset)
            if dataset is None or dataset.kind is DatasetKind.STREAMING_TABLE:
                return True
            if dataset.kind is DatasetKind.MATERIALIZED_VIEW and self._may_lack_columns(self._reads_of(dataset.spec)):
                return True
        return False

    def _raise_errors(self) -> None:
        if self._errors:
            # One fault may be gathered twice: for a reader of the dataset, and for the dataset itself.
            raise GraphErrors(list({error.render(): error for error in self._errors}.values()))
