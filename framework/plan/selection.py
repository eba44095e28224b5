"""The selection of an update: the datasets to refresh, rebuild or reset, from the request and the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framework.declare.specs import DatasetKind
from framework.foundation.errors import RequestErrors, SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.graph.rules import did_you_mean
from framework.plan.history import history_faults
from framework.plan.request import UpdateRequest
from framework.plan.starts import resolve_starts
from framework.sources.starts import starts_text

RESET_ALLOWED = "pipelines.reset.allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The datasets to update, the datasets among them to rebuild, and the flows to reset.

    Args:
        starts: the starts of reset flows, as the manifests of their generations store them.
    """

    selected: frozenset[QualifiedName]
    rebuilt: frozenset[QualifiedName]
    reset_flows: frozenset[QualifiedName]
    starts: Mapping[QualifiedName, str] = field(default_factory=dict)


def select(graph: DataflowGraph, request: UpdateRequest) -> Selection:
    """Return the selection of a request in a graph.

    Raises:
        UserError: the errors of `check_names`, `history_faults` and `resolve_starts`; TABLE_NOT_RESETTABLE for each
            named table whose `pipelines.reset.allowed` is false; INGESTION_CHANGES_NOT_APPLIED for each table that must
            be kept; FLOW_NOT_RESETTABLE for each flow without a checkpoint; START_WITH_FULL_REFRESH.
    """
    check_names(request, [dataset.name for dataset in graph.datasets], [flow.spec.name for flow in graph.flows])
    _raise(_not_resettable(graph, request))
    _raise(history_faults(graph, request))
    names = frozenset(dataset.name for dataset in graph.datasets)
    targets = frozenset(flow.spec.target for name in request.reset_checkpoints if (flow := graph.flow(name)))
    named = frozenset((*request.refresh, *request.full_refresh)) | targets
    rebuilt = frozenset(request.full_refresh)
    if request.full_refresh_all:
        rebuilt |= frozenset(each.name for each in graph.datasets if is_resettable(each)) - request.kept
    everything = request.full_refresh_all or not named
    selected = (names if everything else named) - request.withheld
    rebuilt |= request.outdated & selected
    return Selection(
        selected=selected,
        rebuilt=rebuilt,
        reset_flows=frozenset(request.reset_checkpoints),
        starts=_starts(graph, request, rebuilt),
    )


def is_resettable(dataset: GraphDataset) -> bool:
    """Whether a full refresh may clear the table."""
    return dict(dataset.spec.table_properties).get(RESET_ALLOWED, "true").lower() != "false"


def check_names(request: UpdateRequest, datasets: Sequence[QualifiedName], flows: Sequence[QualifiedName]) -> None:
    """Check that the pipeline has each dataset and flow that a request names.

    Raises:
        UserError: a DATASET_NOT_FOUND or FLOW_NOT_FOUND with the nearest name; several as RequestErrors.
    """
    errors: list[SluiceError] = [
        UserError("DATASET_NOT_FOUND", dataset=name, hint=did_you_mean(name, datasets))
        for name in (*request.refresh, *request.full_refresh)
        if name not in datasets
    ]
    errors.extend(
        UserError("FLOW_NOT_FOUND", flow=name, hint=did_you_mean(name, flows))
        for name in request.reset_checkpoints
        if name not in flows
    )
    _raise(errors)


def _raise(errors: Sequence[SluiceError]) -> None:
    """Raise the errors if there are any; a single one is raised directly."""
    if errors:
        raise errors[0] if len(errors) == 1 else RequestErrors(errors)


def _not_resettable(graph: DataflowGraph, request: UpdateRequest) -> list[SluiceError]:
    errors: list[SluiceError] = []
    for name in request.full_refresh:
        dataset = graph.dataset(name)
        if dataset is not None and not is_resettable(dataset):
            errors.append(UserError("TABLE_NOT_RESETTABLE", location=dataset.spec.location, dataset=name))
        elif dataset is not None and name in request.kept:
            errors.append(UserError("INGESTION_CHANGES_NOT_APPLIED", location=dataset.spec.location, dataset=name))
    for name in request.reset_checkpoints:
        flow = graph.flow(name)
        target = graph.dataset(flow.spec.target) if flow is not None else None
        if target is not None and not _keeps_checkpoints(target):
            errors.append(UserError("FLOW_NOT_RESETTABLE", location=target.spec.location, flow=name))
    return errors


def _starts(
    graph: DataflowGraph, request: UpdateRequest, rebuilt: frozenset[QualifiedName]
) -> dict[QualifiedName, str]:
    found: dict[QualifiedName, str] = {}
    for name in dict.fromkeys(name for name, _ in request.starts):
        flow = graph.flow(name)
        if flow is None:
            continue
        if flow.spec.target in rebuilt:
            raise UserError("START_WITH_FULL_REFRESH", location=flow.spec.location, flow=name)
        found[name] = starts_text(
            resolve_starts(graph, flow, [start for each, start in request.starts if each == name])
        )
    return found


def _keeps_checkpoints(dataset: GraphDataset) -> bool:
    return dataset.is_sink or dataset.kind is DatasetKind.STREAMING_TABLE
