"""The errors of a plan's refused tables, the same in `plan`, `run` and `show`."""

from __future__ import annotations

from framework.foundation.errors import OperationError
from framework.graph.graph import DataflowGraph
from framework.plan.steps import Plan, RefuseTable


def refusal(graph: DataflowGraph, step: RefuseTable) -> OperationError:
    """Return the error of one refused table, at the declaration of its dataset."""
    dataset = graph.dataset(step.dataset)
    return OperationError(
        "TABLE_NOT_OWNED",
        location=dataset.spec.location if dataset is not None else None,
        dataset=step.dataset,
        path=step.path,
        owner=step.owner,
    )


def refusals(graph: DataflowGraph, plan: Plan) -> tuple[OperationError, ...]:
    """Return the errors of all refused tables of a plan, in the plan's order."""
    return tuple(refusal(graph, step) for step in plan.steps if isinstance(step, RefuseTable))
