"""The rules that a pipeline's declarations must meet before analysis: one function per rule.

A rule yields one error per fault, with the location of the faulty declaration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from framework.declare.quarantine import VALUES, quarantine_property
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_name

RESERVED_PREFIX = "__sluice"
_VIEW_KINDS = frozenset({DatasetKind.TEMPORARY_VIEW})
_TABLE_KINDS = frozenset({DatasetKind.TABLE, DatasetKind.STREAMING_TABLE, DatasetKind.MATERIALIZED_VIEW})

# The engine always recomputes a changed view in full, as `auto` and `full` allow.
_INCREMENTAL = frozenset({"incremental", "incremental_strict"})

_Spec = TypeVar("_Spec", DatasetSpec, FlowSpec)
Rule = Callable[[Registry], Iterator[UserError]]


def duplicate_datasets(registry: Registry) -> Iterator[UserError]:
    """Two datasets must not have the same name."""
    for same in _by_name(registry.datasets).values():
        for later in same[1:]:
            yield _duplicate("PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT", same[0], later)


def duplicate_flows(registry: Registry) -> Iterator[UserError]:
    """Two flows must not have the same name; names that already clash as dataset names are not reported again."""
    clashing = {name for name, specs in _by_name(registry.datasets).items() if len(specs) > 1}
    for same in _by_name([flow for flow in registry.flows if flow.name not in clashing]).values():
        for later in same[1:]:
            yield _duplicate("PIPELINE_DUPLICATE_IDENTIFIERS.FLOW", same[0], later)


def flow_targets(registry: Registry) -> Iterator[UserError]:
    """A flow's target must be a dataset of the pipeline; only a view's own query can target a temporary view."""
    kinds = {dataset.name: dataset.kind for dataset in registry.datasets}
    for flow in registry.flows:
        kind = kinds.get(flow.target)
        if kind is None:
            yield UserError(
                "PIPELINE_FLOW_WITHOUT_TARGET",
                location=flow.location,
                flow=flow.name,
                target=flow.target,
                hint=did_you_mean(flow.target, kinds),
            )
        elif kind in _VIEW_KINDS and flow.name != flow.target:
            yield UserError("PIPELINE_FLOW_INTO_VIEW", location=flow.location, flow=flow.name, target=flow.target)


def dataset_without_flow(registry: Registry) -> Iterator[UserError]:
    """A table or view needs at least one flow; a sink may have none."""
    fed = {flow.target for flow in registry.flows}
    for dataset in registry.datasets:
        if not dataset.kind.is_sink and dataset.name not in fed:
            yield UserError("PIPELINE_DATASET_WITHOUT_FLOW", location=dataset.location, dataset=dataset.name)


def single_query_views(registry: Registry) -> Iterator[UserError]:
    """A materialized view has exactly one query; name clashes of datasets are not reported again."""
    for dataset, flows in _flows_by_dataset(registry):
        if dataset.kind is DatasetKind.MATERIALIZED_VIEW and len(flows) > 1:
            names = ", ".join(str(flow.name) for flow in flows)
            yield UserError(
                "MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES",
                location=flows[-1].location,
                dataset=dataset.name,
                flows=names,
            )


def unmixed_targets(registry: Registry) -> Iterator[UserError]:
    """AUTO CDC flows do not share a target with append flows, whose rows have no key."""
    for dataset, flows in _flows_by_dataset(registry):
        with_cdc = [flow for flow in flows if flow.cdc is not None]
        without = [flow for flow in flows if flow.cdc is None]
        if with_cdc and without:
            yield UserError(
                "AUTOCDC_TARGET_WITH_OTHER_FLOWS",
                location=without[-1].location,
                dataset=dataset.name,
                cdc_flow=with_cdc[0].name,
                other_flow=without[-1].name,
            )
        if with_cdc and dataset.kind not in {DatasetKind.STREAMING_TABLE, DatasetKind.TABLE}:
            yield UserError(
                "AUTOCDC_TARGET_NOT_A_STREAMING_TABLE",
                location=with_cdc[0].location,
                dataset=dataset.name,
                flow=with_cdc[0].name,
                kind=dataset.kind.value,
            )


def reserved_names(registry: Registry) -> Iterator[UserError]:
    """Names that begin with Sluice's prefix are reserved."""
    locations = {dataset.name: dataset.location for dataset in registry.datasets}
    locations |= {flow.name: flow.location for flow in registry.flows}
    for name, location in locations.items():
        if name.table.startswith(RESERVED_PREFIX):
            yield UserError("RESERVED_NAME", location=location, name=name, prefix=RESERVED_PREFIX)


def table_layout(registry: Registry) -> Iterator[UserError]:
    """A table is a Delta table with partitioning or clustering, not both."""
    for dataset in registry.datasets:
        if dataset.kind not in _TABLE_KINDS:
            continue
        if dataset.format is not None and dataset.format.lower() != "delta":
            yield UserError(
                "TABLE_FORMAT_NOT_SUPPORTED", location=dataset.location, dataset=dataset.name, format=dataset.format
            )
        if dataset.partition_columns and (dataset.cluster_by or dataset.cluster_by_auto):
            yield UserError(
                "CLUSTER_BY_AND_PARTITIONED_BY_NOT_ALLOWED", location=dataset.location, dataset=dataset.name
            )


def honoured_settings(registry: Registry) -> Iterator[UserError]:
    """Arguments that only Databricks supports are refused, not ignored: an ignored row filter would expose rows."""
    for dataset in registry.datasets:
        if dataset.row_filter is not None:
            yield UserError("ROW_FILTER_NOT_SUPPORTED", location=dataset.location, dataset=dataset.name)
        if dataset.refresh_policy in _INCREMENTAL:
            yield UserError(
                "REFRESH_POLICY_NOT_SUPPORTED",
                location=dataset.location,
                dataset=dataset.name,
                policy=dataset.refresh_policy,
            )


def quarantined_tables(registry: Registry) -> Iterator[UserError]:
    """A table with `sluice.quarantine` must have flows that can drop rows for good: no view, and no snapshots."""
    for dataset, flows in _flows_by_dataset(registry):
        value = quarantine_property(dataset)
        if value is None:
            continue
        if value not in VALUES:
            yield UserError("QUARANTINE_INVALID", location=dataset.location, dataset=dataset.name, value=value)
        elif VALUES[value] and dataset.kind is DatasetKind.MATERIALIZED_VIEW:
            yield UserError("QUARANTINE_OF_VIEW", location=dataset.location, dataset=dataset.name)
        elif VALUES[value] and any(flow.from_snapshots for flow in flows):
            name = next(flow.name for flow in flows if flow.from_snapshots)
            yield UserError("QUARANTINE_OF_SNAPSHOTS", location=dataset.location, dataset=dataset.name, flow=name)


COMPLETE_ONLY = frozenset({"PIPELINE_FLOW_WITHOUT_TARGET", "PIPELINE_DATASET_WITHOUT_FLOW"})
"""Conditions to ignore while a module is broken, because its declarations are missing."""

OF_ALL_FLOWS = frozenset({"LAYOUT_COLUMN_NOT_FOUND"})
"""Conditions of a dataset that a further flow into it can correct."""

RULES: tuple[Rule, ...] = (
    duplicate_datasets,
    duplicate_flows,
    flow_targets,
    dataset_without_flow,
    single_query_views,
    unmixed_targets,
    reserved_names,
    table_layout,
    honoured_settings,
    quarantined_tables,
)


def did_you_mean(name: QualifiedName, known: Iterable[QualifiedName]) -> str:
    """Return ` Did you mean …?` with the known name whose last part is nearest; empty if none is near."""
    # Full names would always be near because of their common catalog and schema.
    names = {candidate.table: candidate for candidate in known}
    nearest = nearest_name(name.table, names)
    return f" Did you mean {names[nearest]}?" if nearest else ""


def names_in(error: SluiceError) -> set[QualifiedName]:
    """Return the datasets and flows that an error names."""
    return {value for value in error.fields.values() if isinstance(value, QualifiedName)}


def _by_name(specs: Sequence[_Spec]) -> dict[QualifiedName, list[_Spec]]:
    grouped: dict[QualifiedName, list[_Spec]] = defaultdict(list)
    for spec in specs:
        grouped[spec.name].append(spec)
    return grouped


def _duplicate(condition: str, first: DatasetSpec | FlowSpec, later: DatasetSpec | FlowSpec) -> UserError:
    return UserError(condition, location=later.location, name=later.name, first=first.location)


def _flows_by_dataset(registry: Registry) -> Iterator[tuple[DatasetSpec, list[FlowSpec]]]:
    """Yield each dataset with its flows; not datasets with equal names, which make a flow's target ambiguous."""
    into: dict[QualifiedName, list[FlowSpec]] = defaultdict(list)
    for flow in registry.flows:
        into[flow.target].append(flow)
    for name, same in _by_name(registry.datasets).items():
        if len(same) == 1:
            yield same[0], into[name]
