"""What the next update does with one dataset, and why: its steps, and the errors that are foretold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.foundation.display import Displayed
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName, ShortNames
from framework.graph.graph import DataflowGraph
from framework.plan.steps import Plan, breakages
from framework.views.graph import sources_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Displayed):
    """The next update of one dataset.

    Args:
        title: its name and its kind.
        reads: the sources of its flows, as a clause; empty without a source.
        plan: the steps of the dataset in the plan.
        breaks: the errors with which its flows certainly fail.
    """

    title: str
    reads: str
    plan: Plan
    breaks: tuple[OperationError, ...]


def explain_dataset(graph: DataflowGraph, plan: Plan, name: QualifiedName) -> Explanation:
    """Return what a plan does with a dataset of its graph, which has the name."""
    dataset = graph.dataset(name)
    assert dataset is not None
    short = ShortNames.of(each.name for each in graph.datasets)
    flows = [flow for flow in graph.flows if flow.spec.target == name]
    sources = dict.fromkeys(source.title(short) for flow in flows for source in sources_of(graph, flow))
    of_dataset = replace(plan, steps=tuple(step for step in plan.steps if step.dataset == name))
    return Explanation(
        title=f"{short(name)}, {dataset.kind.value.replace('_', ' ')}",
        reads=f"reads {', '.join(sources)}" if sources else "",
        plan=of_dataset,
        breaks=tuple(breakages(graph, of_dataset)),
    )
