"""Schema growth in a running update: the graph is resolved again for new columns or wider types of sources.

A flow that reads files records new columns and stops before the first batch with them; any other flow stops before its
query starts. Its table, and all tables that read it, get the columns before a row has them. All other flows continue
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from framework.foundation.conditions.run import RESOLVED_AGAIN
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.plan.continuous import supervised_steps
from framework.plan.steps import Plan, RefreshView, RunFlow
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.stored_resolution import store_graph
from framework.run.update.continuous.units import Successor
from framework.run.update.executor import Executor
from framework.run.update.results import FlowResult

MOST_RESTARTS = 100
"""The maximum restarts for new columns without a committed row; each restart adds or widens at least one column."""

PlanOf = Callable[[DataflowGraph, tuple[QualifiedName, ...]], Plan]


def has_new_columns(flows: Iterable[FlowResult]) -> bool:
    """Whether a flow stopped for new columns or types of its sources."""
    return any(flow.error is not None and flow.error.condition in RESOLVED_AGAIN for flow in flows)


def with_graph(executor: Executor, graph: DataflowGraph) -> Executor:
    """Return the executor for another graph of the same pipeline, sharing sessions, locks and progress.

    The graph is also stored for readers.
    """
    store_graph(graph, executor.store)
    work = executor.work
    context = work.runner.context
    state = StateReader(graph=graph, store=executor.store)
    # Calls of query functions must still exclude those of flows that run with the former graph.
    queries = replace(context.queries, graph=graph)
    runner = replace(work.runner, context=replace(context, graph=graph, queries=queries, state=state))
    refresher = replace(work.refresher, graph=graph, queries=queries, state=state)
    return replace(
        executor,
        graph=graph,
        rebuilds=replace(executor.rebuilds, graph=graph),
        work=replace(work, graph=graph, runner=runner, refresher=refresher, state=state),
    )


class Growth:
    """Restarts flows of a continuous update with the present columns of their sources.

    Args:
        executor: runs the flows; replaced at each restart.
        resolve: resolves the graph again.
        plan_of: plans a continuous update of some datasets of a graph.
        supervised: the datasets of the update.
    """

    def __init__(
        self,
        *,
        executor: Executor,
        resolve: Callable[[], DataflowGraph],
        plan_of: PlanOf,
        supervised: Collection[QualifiedName],
    ) -> None:
        self._executor = executor
        self._resolve = resolve
        self._plan_of = plan_of
        self._supervised = supervised

    def __call__(self, dataset: QualifiedName) -> Mapping[QualifiedName, Successor]:
        """Extend the tables, and return the successors of the flows that have to restart, by flow name.

        Args:
            dataset: the target of the flow that stopped.

        Raises:
            SluiceError: a query is invalid with the new columns, or a table can't be extended.
        """
        before = self._executor.graph
        # Query functions share one session, so no flow may call its own function meanwhile.
        with self._executor.work.runner.context.queries.exclusive():
            graph = self._resolve()
        concerned = tuple(name for name in _concerned(before, graph, dataset) if name in self._supervised)
        plan = self._plan_of(graph, concerned)
        self._executor = with_graph(self._executor, graph)
        failed = self._executor.set_up(plan)
        steps = supervised_steps(plan)
        if dataset in failed and dataset not in {step.dataset for step in steps}:
            raise failed[dataset]  # the plan refuses the table
        return {
            step.flow: Successor(
                step=step, flow=_flow(graph, step), attempts=self._executor.work, error=failed.get(step.dataset)
            )
            for step in steps
        }


def _concerned(before: DataflowGraph, graph: DataflowGraph, dataset: QualifiedName) -> tuple[QualifiedName, ...]:
    """The dataset, all datasets with changed columns, and all their readers, in the order of the graph."""
    found: set[QualifiedName] = set()
    for name in graph.order():
        old, new = before.dataset(name), graph.dataset(name)
        changed = old is not None and new is not None and old.schema != new.schema
        if name == dataset or changed or found.intersection(graph.inputs(name)):
            found.add(name)
    return tuple(name for name in graph.order() if name in found)


def _flow(graph: DataflowGraph, step: RunFlow | RefreshView) -> GraphFlow:
    flow = graph.flow(step.flow)
    assert flow is not None
    return flow
