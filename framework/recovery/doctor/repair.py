"""Applies a way out: records who, why, and the position before and after, and calls the engine's own operation."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, assert_never

from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.processes import user_name
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.state import GatewayStore
from framework.plan.request import RequestOptions
from framework.plan.steps import BeginGeneration, Plan
from framework.record.drafts import user_action
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.recovery.doctor.actions import (
    Action,
    FullRefresh,
    RebuildCopy,
    ReplacePosition,
    ResetCheckpoint,
    Resume,
    Resync,
    RollBack,
    RunAgain,
)
from framework.recovery.doctor.finding import Finding, Position, Repair
from framework.recovery.doctor.way_out import WayOut
from framework.run.update.checkpoint_actions import roll_back_checkpoint
from framework.run.update.results import UpdateResult

ACTION = "DOCTOR"
"""The action name in the events of a repair."""


Check = Callable[[], None]
"""Raises DOCTOR_FINDING_CHANGED; called under the update lock."""


class Runs(Protocol):
    """The function that runs an update for a repair."""

    def __call__(self, request: RequestOptions, check: Check | None) -> UpdateResult:
        """Run an update; `check` is called under the update lock, before anything is written."""
        ...


def chosen_way(finding: Finding, number: int) -> WayOut:
    """Return the way out with a number, counted from 1.

    Raises:
        UserError: DOCTOR_WAY_UNKNOWN, DOCTOR_WAY_FOR_PERSON.
    """
    flow = finding.flow or "The update"
    if not 1 <= number <= len(finding.ways):
        raise UserError("DOCTOR_WAY_UNKNOWN", flow=flow, number=number, count=len(finding.ways))
    way = finding.ways[number - 1]
    if way.action is None:
        raise UserError("DOCTOR_WAY_FOR_PERSON", flow=finding.flow or "the update", number=number, text=way.text)
    return way


def request_of_action(action: Action) -> RequestOptions | None:
    """Return the update request of an action; None if the action runs no update."""
    match action:
        case ResetCheckpoint():
            return RequestOptions(reset_checkpoints={str(action.flow): action.starts})
        case FullRefresh() | RebuildCopy():
            return RequestOptions(full_refresh=[str(action.dataset)])
        case RunAgain() | RollBack():
            return RequestOptions(refresh=[str(action.dataset)])
        case Resync() | ReplacePosition() | Resume():
            return None
        case _:
            assert_never(action)


def expected_position(finding: Finding, way: WayOut, plan: Plan | None) -> Position:
    """Return the position at which a flow will start after a way out.

    Args:
        finding: the finding.
        way: one of its ways out.
        plan: the plan of the update that the way out runs; None if it runs none.
    """
    action = way.action
    if isinstance(action, RollBack):
        return Position(generation=action.generation)
    for step in plan.steps if plan is not None else ():
        if isinstance(step, BeginGeneration) and step.flow == finding.flow:
            starts = action.starts if isinstance(action, ResetCheckpoint) else ()
            return Position(generation=step.generation, starts=starts)
    return finding.position


def treat(
    finding: Finding,
    way: WayOut,
    *,
    storage: Storage,
    pipeline: str,
    reason: str,
    run: Runs,
    position: Callable[[QualifiedName], Position],
    check: Check,
) -> Repair:
    """Apply a way out of a finding.

    The intention is recorded before anything changes, and the result afterwards. If the process dies in between, the
    first event remains, and the events of the update show how far it came.

    Args:
        finding: the finding.
        way: one of its ways out, with an action.
        storage: the pipeline's storage.
        pipeline: its name.
        reason: why, in the user's words; empty without.
        run: runs an update.
        position: returns the current position of a flow.
        check: checks under the update lock that the flow's position has not changed.

    Raises:
        OperationError: an update is running.
        UserError: the operation is not possible; DOCTOR_FINDING_CHANGED.
    """
    action, flow = way.action, finding.flow
    assert action is not None and flow is not None  # noqa: PT018 - one condition: only flows have actions
    record = _Record(storage=storage, pipeline=pipeline, finding=finding, way=way, reason=reason)
    record.begun()
    status = "FAILED"
    try:
        result = _do(action, storage, pipeline, run, check)
        status = "DONE" if result is None else result.state.value
    finally:
        after = position(flow)
        record.ended(after, status)
    return Repair(finding=finding, way=way, before=finding.position, after=after, result=result)


def _do(action: Action, storage: Storage, pipeline: str, run: Runs, check: Check) -> UpdateResult | None:
    """Apply an action, and return the result of its update; None if it runs none."""
    if isinstance(action, RollBack):
        roll_back_checkpoint(
            storage,
            pipeline,
            str(action.flow),
            action.generation,
            target=str(action.dataset),
            allow_repeats=action.repeats,
            check=check,
        )
    # The update of a rebuilt copy consumes the request. If it does not begin, the request alone reads the table again.
    _operate(action, storage)
    request = request_of_action(action)
    # A roll-back was checked and has already moved the flow; a request for a gateway is idempotent.
    moves = isinstance(action, ResetCheckpoint | FullRefresh | RunAgain)
    return None if request is None else run(request, check if moves else None)


def _operate(action: Action, storage: Storage) -> None:
    """Write an operator's request for a gateway; the next update consumes it."""
    tables = GatewayTables(gateways=tuple(state.gateway for state in GatewayStore(storage).read_all()))
    operations = Operations(storage=storage)
    match action:
        case Resync(gateway=name, table=table) | RebuildCopy(gateway=name, table=table):
            operations.resync(*tables.table(table, name), None)
        case ReplacePosition(gateway=name):
            operations.replace_position(tables.gateway(name))
        case Resume(gateway=name, table=table):
            gateway = tables.gateway(name)
            operations.resume(gateway, None if table is None else tables.table(table, name)[1])
        case ResetCheckpoint() | RollBack() | FullRefresh() | RunAgain():
            return  # these actions run an update
        case _:
            assert_never(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The events of one repair, in their own file of the event log."""

    storage: Storage
    pipeline: str
    finding: Finding
    way: WayOut
    reason: str

    def begun(self) -> None:
        self._write("BEGUN", {})

    def ended(self, after: Position, status: str) -> None:
        self._write(status, {"after": asdict(after)})

    def _write(self, status: str, more: Mapping[str, Any]) -> None:
        finding = self.finding
        origin = replace(
            Origin.of(self.pipeline, self.storage.root, str(uuid.uuid4())),
            dataset_name=str(finding.dataset),
            flow_name=str(finding.flow),
        )
        text = f"Doctor: {self.way.text} Flow {finding.flow}, {finding.diagnosis.name}: {status}."
        with EventLog(self.storage, origin) as log:
            log.record(
                user_action(
                    action=ACTION,
                    user_name=user_name(),
                    message=text,
                    reason=self.reason or None,
                    more={
                        "status": status,
                        "flow": str(finding.flow),
                        "diagnosis": finding.diagnosis.name,
                        "condition": finding.condition,
                        "command": self.way.command,
                        "before": asdict(finding.position),
                        **more,
                    },
                )
            )
