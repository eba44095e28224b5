"""New columns of sources, or wider types, in a running update: the graph is resolved again, the flows go on with it.

A flow that reads files stops before the first batch with new columns, after it has recorded them; any other one before
its query starts. Its table, and those that read it, get the columns before a row has them. All other flows continue as
they are.
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
"""Restarts for new columns without a committed row in between; each one adds or widens at least one."""

PlanOf = Callable[[DataflowGraph, tuple[QualifiedName, ...]], Plan]


def has_new_columns(flows: Iterable[FlowResult]) -> bool:
    """Whether a flow stopped for columns or types that its sources have now."""
    return any(flow.error is not None and flow.error.condition in RESOLVED_AGAIN for flow in flows)


def with_graph(executor: Executor, graph: DataflowGraph) -> Executor:
    """Return the executor for another graph of the same pipeline; sessions, locks and what is done are shared.

    The graph is stored for readers.
    """
    store_graph(graph, executor.store)
    work = executor.work
    context = work.runner.context
    state = StateReader(graph=graph, store=executor.store)
    # The calls of query functions still exclude those of the flows that run with the former graph.
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
    """Restarts flows of a continuous update with the columns that their sources have now.

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
        """Extend the tables, and return the successors of the flows that have to restart, by their names.

        Args:
            dataset: the target of the flow that stopped.

        Raises:
            SluiceError: a query is invalid with the new columns, or a table can't be extended.
        """
        before = self._executor.graph
        # Query functions share one session, so no flow may call its own meanwhile.
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
    """The dataset, those with other columns than before, and all that read one of them, in the order of the graph."""
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
