"""Completes snapshots that replace an earlier one: deletes the rows that they did not confirm, then marks them.

Tried after each flow, because the last of three flows makes it possible: the snapshot, the staged changes, and the
changes of the table. A crash between the deletes and the mark is safe: the next update deletes again, which changes
nothing, and then sets the mark.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from framework.checkpoints.generations import GenerationStore
from framework.foundation.failpoints import failpoint
from framework.ingest.confirmation import Confirmation, open_confirmations
from framework.plan.steps import RunFlow
from framework.run.flows.flow_run import FlowContext, FlowRun, OnOutcome
from framework.run.flows.metrics import FlowOutcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from framework.declare.specs import FlowSpec
    from framework.foundation.names import QualifiedName

Applied = tuple["QualifiedName", int]


def applied_by(flow: QualifiedName, context: FlowContext) -> frozenset[Applied]:
    """Return the snapshots whose earlier changes a flow will have applied when it ends; called before it starts."""
    return frozenset(
        (each.table.target, each.generation.number)
        for each in _open(context)
        if each.is_staged and each.table.cdc_flow == flow
    )


def confirm_snapshots(
    context: FlowContext, ended: FlowSpec, applied: Collection[Applied], on_outcome: OnOutcome
) -> FlowOutcome:
    """Complete the snapshots for which nothing is left to wait.

    Args:
        context: the context of the update's flows.
        ended: the flow that has ended.
        applied: the snapshots whose earlier changes were applied in this update.
        on_outcome: called for the deleted rows of the ended flow's own target.

    Raises:
        Exception: the failure for the target of the ended flow. That of another target is left to its own flow, which
            tries again in this update or the next one.
    """
    total = FlowOutcome()
    for each in _open(context):
        is_own = each.table.target == ended.target
        # Whatever is wrong with another table, its own flow finds it, too, and is the one that fails.
        with nullcontext() if is_own else suppress(Exception):
            if each.is_read and each.is_staged and _is_applied(each, context, applied):
                done = _confirm(each, context, on_outcome)
                if is_own:
                    on_outcome(done, None)
                    total = total.plus(done)
    return total


def _open(context: FlowContext) -> list[Confirmation]:
    gateways = context.registry.gateways
    return list(open_confirmations(gateways, context.store.storage)) if gateways else []


def _is_applied(each: Confirmation, context: FlowContext, applied: Collection[Applied]) -> bool:
    if (each.table.target, each.generation.number) in applied:
        return True
    flow, generations = context.graph.flow(each.table.cdc_flow), GenerationStore(context.store.storage)
    current = generations.current(each.table.target, each.table.cdc_flow)
    if flow is None or current is None:
        return False
    return context.state.is_drained(flow, generations.path(each.table.target, flow.spec.name, current.number))


def _confirm(each: Confirmation, context: FlowContext, on_outcome: OnOutcome) -> FlowOutcome:
    flow, dataset = context.graph.flow(each.table.snapshot_flow), context.graph.dataset(each.table.target)
    assert flow is not None and dataset is not None and dataset.cdc is not None  # noqa: PT018 - both are declared
    step = RunFlow(
        flow=flow.spec.name, dataset=dataset.name, generation=each.checkpoint, after=(), reason="", check=False
    )  # fmt: skip
    run = FlowRun(
        context=context, step=step, flow=flow, dataset=dataset, settings=context.graph.settings(flow),
        on_outcome=on_outcome,
    )  # fmt: skip
    writer = run.writer_of(dataset.cdc)
    metrics = writer.delete_unconfirmed(run.session(), each.sequence, where=each.where, missing=each.missing)
    failpoint("run.before_once_mark")
    GenerationStore(context.store.storage).complete(dataset.name, flow.spec.name, each.checkpoint)
    return FlowOutcome.of_cdc(metrics)
