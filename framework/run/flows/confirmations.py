"""Completion of snapshots that replace an earlier one: unconfirmed rows are deleted, then the snapshot is marked.

This is tried after each of the three flows that it waits for, because any of them may be the last: the snapshot, the
staged changes, and the changes of the table. A crash between the deletes and the mark is safe: the next update deletes
again, which changes nothing, and then sets the mark.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
from threading import Lock
from typing import TYPE_CHECKING

from framework.checkpoints.generations import GenerationStore
from framework.foundation.failpoints import failpoint
from framework.ingest.confirmation import Confirmation, open_confirmations
from framework.plan.steps import RunFlow
from framework.run.flows.flow_run import FlowContext, FlowRun, OnOutcome
from framework.run.flows.metrics import FlowOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from framework.declare.specs import FlowSpec
    from framework.foundation.names import QualifiedName

Applied = tuple["QualifiedName", int]


def applied_by(flow: QualifiedName, context: FlowContext) -> frozenset[Applied]:
    """Return the snapshots whose earlier changes this flow will have applied at its end; called before it starts."""
    return frozenset(
        (each.table.target, each.generation.number)
        for each in _open(context)
        if each.is_staged and each.table.cdc_flow == flow
    )


class Turns:
    """The targets whose snapshots an update confirms; each is confirmed by one flow at a time."""

    def __init__(self) -> None:
        self._locks: dict[QualifiedName, Lock] = {}

    @contextmanager
    def of(self, target: QualifiedName, *, waits: bool) -> Iterator[bool]:
        """Yield whether this flow may confirm the target; False if another flow does and this one does not wait.

        Args:
            target: the target.
            waits: whether to wait for the other flow.
        """
        lock = self._locks.setdefault(target, Lock())  # one atomic operation for all threads
        taken = lock.acquire(blocking=waits)
        try:
            yield taken
        finally:
            if taken:
                lock.release()


def confirm_snapshots(
    context: FlowContext, ended: FlowSpec, applied: Collection[Applied], turns: Turns, on_outcome: OnOutcome
) -> FlowOutcome:
    """Complete the snapshots that no longer wait for anything.

    Args:
        context: the context of the update's flows.
        ended: the flow that has ended.
        applied: the snapshots whose earlier changes this update has applied.
        turns: the turns of the update's flows.
        on_outcome: called for the deleted rows of the ended flow's own target.

    Raises:
        Exception: the failure for the ended flow's own target. A failure for another target is ignored: the flow of
            that target tries again in this update or the next one.
    """
    total = FlowOutcome()
    for each in _open(context):
        is_own = each.table.target == ended.target
        # A fault of another table also occurs in the table's own flow, which fails with it.
        with nullcontext() if is_own else suppress(Exception):
            if not (each.is_read and each.is_staged and _is_applied(each, context, applied)):
                continue
            # The target's own flow waits: if the other flow fails to confirm, this one must fail.
            with turns.of(each.table.target, waits=is_own) as is_turn:
                if not is_turn or _is_complete(each, context):
                    continue
                done = _confirm(each, context, on_outcome)
            if is_own:
                on_outcome(done, None)
                total = total.plus(done)
    return total


def _open(context: FlowContext) -> list[Confirmation]:
    gateways = context.registry.gateways
    return list(open_confirmations(gateways, context.store.storage)) if gateways else []


def _is_complete(each: Confirmation, context: FlowContext) -> bool:
    """Return whether another flow has completed the snapshot since it was read as open."""
    current = GenerationStore(context.store.storage).current(each.table.target, each.table.snapshot_flow)
    return current is None or current.number != each.checkpoint or current.completed


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
    )
    run = FlowRun(
        context=context,
        step=step,
        flow=flow,
        dataset=dataset,
        settings=context.graph.settings(flow),
        on_outcome=on_outcome,
    )
    writer = run.writer_of(dataset.cdc)
    metrics = writer.delete_unconfirmed(run.session(), each.sequence, where=each.where, missing=each.missing)
    failpoint("run.before_once_mark")
    GenerationStore(context.store.storage).complete(dataset.name, flow.spec.name, each.checkpoint)
    return FlowOutcome.of_cdc(metrics)
