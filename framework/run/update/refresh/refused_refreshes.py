"""Full refreshes of copies, and new slots, that could not begin because the database gave no position for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from framework.declare.specs import IngestedGateway
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.ingest.generations import Refusal
from framework.plan.steps import Plan, SkipStep


def refused_copies(
    refusals: Iterable[Refusal], gateways: Iterable[IngestedGateway]
) -> dict[QualifiedName, SluiceError]:
    """Return why copies could not begin a generation; a refused new slot affects all copies of its gateway."""
    refused = {each.target: each.error for each in refusals}
    of_slots = {
        table.target: refused[gateway.changes]
        for gateway in gateways
        if gateway.changes in refused
        for table in gateway.tables
    }
    return {**of_slots, **refused}


def lost_slots(refusals: Iterable[Refusal]) -> dict[QualifiedName, SluiceError]:
    """Return why new slots could not be created, by the changes that the previous slots can no longer deliver."""
    return {each.target: each.error for each in refusals if each.gap is not None}


def with_causes(plan: Plan, withheld: Mapping[QualifiedName, SluiceError]) -> Plan:
    """Return the plan whose skip steps explain why the withheld datasets could not be read from the start."""
    return replace(
        plan,
        steps=tuple(
            replace(step, reason=f"{step.reason}: {withheld[step.dataset].what}")
            if isinstance(step, SkipStep) and step.excluded and step.dataset in withheld
            else step
            for step in plan.steps
        ),
    )


def waiting(refusals: Iterable[Refusal], told: Container[str]) -> tuple[SluiceError, ...]:
    """Return each reason once why tables were not read again, except reasons that failed flows already report."""
    errors = {each.error.render(): each.error for each in refusals if each.error.what not in told}
    return tuple(errors.values())


def with_faults(
    graph: DataflowGraph, refused: Mapping[QualifiedName, SluiceError], slots: Mapping[QualifiedName, SluiceError]
) -> DataflowGraph:
    """Return the graph in which flows of refused full refreshes, and changes of refused slots, fail on their own.

    Without this, the changes would fail because of the gap that a new slot closes.
    """
    return replace(
        graph,
        datasets=tuple(
            replace(
                each,
                fault=slots[each.name].at(each.spec.location)
                if each.name in slots
                else OperationError(
                    "INGESTION_REFRESH_NOT_BEGUN",
                    location=each.spec.location,
                    dataset=each.name,
                    cause=refused[each.name].what,
                    remedy=refused[each.name].remedy,
                ),
            )
            if (each.name in refused or each.name in slots) and each.fault is None
            else each
            for each in graph.datasets
        ),
    )
