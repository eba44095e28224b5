"""The immutable dataflow graph that planning, running and drawing start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from framework.cdc.model.target_plan import TargetPlan
from framework.checkpoints.operators import StatefulOperator
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.display import Displayed
from framework.foundation.errors import SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.kept_analyses import KeptAnalysis
from framework.sources.port import ColumnValues, SourceReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read of a flow: of a dataset of the pipeline, or of an external table (`dataset` is None).

    Args:
        text: the name as written in the module.
        path: the folder of the table if it is an external Delta table.
        options: the options of the read.
        only: conditions on partition columns that the query applies to the rows of a stream before any other step.
        begins: the start in the options of a stream by path; empty if it reads the whole table.
    """

    text: str
    streaming: bool
    dataset: QualifiedName | None = None
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    only: tuple[ColumnValues, ...] = ()
    begins: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFlow:
    """A flow whose query was analysed.

    Args:
        reads: every table read, including reads through views, in order of first use.
        streaming: whether its DataFrame is a streaming one.
        fingerprint: text that changes when the query's computation changes. None if unknown (data of unknown identity,
            current time): the query then always counts as changed.
        schema: JSON of the query's schema.
        sources: its streaming sources other than the tables of `reads`, in the order of its plan.
        batch_paths: the folders and files that it reads as batches, by path or by name.
        operators: the stateful operators of its streaming query; None if unknown.
        source_count: the number of streaming sources of its query, counting repeated reads; None if unknown.
        source_names: its streaming sources as text, including repeated ones, in the order of its plan. A checkpoint
            identifies a source by its position in this order.
    """

    spec: FlowSpec
    reads: tuple[Read, ...] = ()
    streaming: bool = False
    fingerprint: str | None = None
    schema: str | None = None
    sources: tuple[SourceReference, ...] = ()
    batch_paths: tuple[str, ...] = ()
    operators: tuple[StatefulOperator, ...] | None = None
    source_count: int | None = None
    source_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDataset:
    """A dataset whose kind and schema are known.

    Args:
        schema: JSON of the schema that readers see; None for sinks.
        table_schema: JSON of the stored table's schema, including columns that are hidden from readers.
        cdc: the AUTO CDC plan of the table if its flows are AUTO CDC flows.
        widens: whether the types of its columns widen when the types of its flows do.
        fault: why its flows can't run although the pipeline is valid; None without a fault. With one, `schema` is the
            schema of the stored table.
        waits_for: the datasets with faults without which its queries can't be analysed; it then has no fault itself.
    """

    spec: DatasetSpec
    kind: DatasetKind
    schema: str | None = None
    table_schema: str | None = None
    cdc: TargetPlan | None = None
    widens: bool = False
    fault: SluiceError | None = None
    waits_for: tuple[QualifiedName, ...] = ()

    @property
    def is_unresolved(self) -> bool:
        """Whether its present queries can't be resolved, because it or an input has a fault."""
        return self.fault is not None or bool(self.waits_for)

    @property
    def name(self) -> QualifiedName:
        """The dataset's full name."""
        return self.spec.name

    @property
    def is_table(self) -> bool:
        """Whether it is stored as a table; temporary views and sinks are not."""
        return self.kind.is_table

    @property
    def is_sink(self) -> bool:
        """Whether it is a sink: flows write through it to targets outside the pipeline."""
        return self.kind.is_sink


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DataflowGraph(Displayed):
    """All datasets and flows of a pipeline, analysed and valid, in order of declaration.

    Args:
        analyses: the analyses of datasets with generated queries, which the next update may use.
        warnings: risks for some rows, although the pipeline is valid.
        lacking: what datasets lack although their flows run.
        is_partial: whether tables or reads may be missing, because a source is unreadable at the moment.
    """

    pipeline: str
    datasets: tuple[GraphDataset, ...]
    flows: tuple[GraphFlow, ...]
    analyses: Mapping[QualifiedName, KeptAnalysis] = field(default_factory=dict, repr=False, compare=False)
    warnings: tuple[SluiceError, ...] = field(default=(), repr=False, compare=False)
    lacking: Mapping[QualifiedName, SluiceError] = field(default_factory=dict, repr=False, compare=False)
    is_partial: bool = False
    _by_name: Mapping[QualifiedName, GraphDataset] = field(init=False, repr=False, compare=False)
    _flows_by_name: Mapping[QualifiedName, GraphFlow] = field(init=False, repr=False, compare=False)
    _into: Mapping[QualifiedName, tuple[GraphFlow, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index datasets and flows by name."""
        object.__setattr__(self, "_by_name", {dataset.name: dataset for dataset in self.datasets})
        object.__setattr__(self, "_flows_by_name", {flow.spec.name: flow for flow in self.flows})
        into: dict[QualifiedName, tuple[GraphFlow, ...]] = {}
        for flow in self.flows:
            into[flow.spec.target] = (*into.get(flow.spec.target, ()), flow)
        object.__setattr__(self, "_into", into)

    def dataset(self, name: QualifiedName) -> GraphDataset | None:
        """The dataset of that name, or None."""
        return self._by_name.get(name)

    def flow(self, name: QualifiedName) -> GraphFlow | None:
        """The flow of that name, or None."""
        return self._flows_by_name.get(name)

    def flows_into(self, name: QualifiedName) -> tuple[GraphFlow, ...]:
        """The flows whose target is that dataset, in order of declaration."""
        return self._into.get(name, ())

    def settings(self, flow: GraphFlow) -> dict[str, str]:
        """Return the Spark settings of a flow (see `flow_settings`)."""
        return flow_settings(flow.spec, flow.reads, {dataset.name: dataset.spec for dataset in self.datasets})

    def inputs(self, name: QualifiedName) -> tuple[QualifiedName, ...]:
        """The datasets that the flows of a dataset read, in order of first use."""
        reads = (read.dataset for flow in self.flows_into(name) for read in flow.reads)
        return tuple(dict.fromkeys(dataset for dataset in reads if dataset is not None))

    def order(self) -> tuple[QualifiedName, ...]:
        """All datasets in topological order: each one after the datasets it reads."""
        sorter = TopologicalSorter({dataset.name: self.inputs(dataset.name) for dataset in self.datasets})
        return tuple(sorter.static_order())

    @property
    def faults(self) -> tuple[SluiceError, ...]:
        """The faults of datasets whose flows can't run, in order of declaration; a shared fault appears once."""
        found = (dataset.fault for dataset in self.datasets if dataset.fault is not None)
        return tuple({fault.render(): fault for fault in found}.values())

    @property
    def unresolved(self) -> frozenset[QualifiedName]:
        """The datasets that have a fault or wait for one that has."""
        return frozenset(dataset.name for dataset in self.datasets if dataset.is_unresolved)

    @property
    def external(self) -> tuple[str, ...]:
        """The names of all reads outside the pipeline, as written in the modules."""
        reads = (read for flow in self.flows for read in flow.reads if read.dataset is None)
        return tuple(dict.fromkeys(read.text for read in reads))


def views_read(reads: Iterable[Read], datasets: Mapping[QualifiedName, DatasetSpec]) -> list[DatasetSpec]:
    """Return the temporary views among the reads of a flow, in the order of the reads."""
    specs = [datasets.get(read.dataset) for read in reads if read.dataset is not None]
    return [spec for spec in specs if spec is not None and spec.kind is DatasetKind.TEMPORARY_VIEW]


def flow_settings(
    flow: FlowSpec, reads: Iterable[Read], datasets: Mapping[QualifiedName, DatasetSpec]
) -> dict[str, str]:
    """Return the Spark settings of a flow.

    Its own settings override the settings of its target, which override the settings of the temporary views that it
    reads. If two views set the same key, the view that the flow reads last has precedence.

    Args:
        flow: the flow.
        reads: its reads, including reads through its views.
        datasets: the declarations of the pipeline's datasets.
    """
    views = views_read(reads, datasets)
    found: dict[str, str] = {}
    for settings in (*(view.spark_conf for view in (*views, datasets.get(flow.target)) if view), flow.spark_conf):
        found |= dict(settings)
    return found
