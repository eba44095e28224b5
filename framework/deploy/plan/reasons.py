"""Reasons of the guard's verdicts, in words: the tables, their progress, the hours that a restart would lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from framework.deploy.plan.deploy_plan import PlannedChange
from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.gateway_state import GatewayState, Phase, TableSnapshot
from framework.deploy.plan.policy import Policy, Verdict
from framework.foundation.wording import counted

_NOTHING_DONE = "not chunked: no primary key, unique key or index"
_CHUNKS_UNKNOWN = "chunking unknown"


_FOREIGN = "its settings were changed outside this bundle"


_APPLIED: Mapping[ChangeClass, str] = {
    ChangeClass.CREATE: "it does not exist yet",
    ChangeClass.RECREATE: "it is deleted and created again",
    ChangeClass.DELETE: "it was removed from the bundle",
    ChangeClass.DRIFT: f"{_FOREIGN}; the bundle overwrites them",
}


def reason_of(change: PlannedChange, policy: Policy) -> str:
    """Return the reason of a verdict: one sentence without a full stop; never empty."""
    match change.verdict:
        case Verdict.NOTHING:
            reason = _no_change(change)
        case Verdict.APPLY:
            reason = _application(change, policy)
        case Verdict.DEFER:
            reason = "not sent to the gateway; written with its next settings change"
        case Verdict.REFUSE:
            reason = _refusal(change)
        case Verdict.HOLD | Verdict.QUEUE | Verdict.UNKNOWN:
            reason = _wait(change)
        case Verdict.SKIP | Verdict.ACCEPT:
            reason = change.reason
        case _:
            assert_never(change.verdict)
    return reason


def _wait(change: PlannedChange) -> str:
    """Return the reason of a change that waits."""
    if change.lost_id is not None:
        return (
            f"{change.lost_id} was deleted outside this bundle: --allow-recreate {change.key} creates a new gateway, "
            f"which repeats all snapshots; `sluice bundle bind {change.key} ID` binds an existing one"
        )
    if any(field.change_class is ChangeClass.DRIFT for field in change.fields):
        return f"{_FOREIGN}; `sluice bundle accept {change.key}` keeps them"
    return state_text(change.gateway)


def _no_change(change: PlannedChange) -> str:
    if change.change_class is ChangeClass.DELETE:
        return "it no longer exists; only its entry in the deployment state is removed"
    if change.access:
        return "only permissions or grants change"
    settled, spelled = len(change.settled), len(change.phantoms) - len(change.settled)
    notes = [f"{counted(spelled, 'field')} in an equivalent spelling"] if spelled else []
    notes += [f"{counted(settled, 'field')} set by the service or accepted"] if settled else []
    return ", ".join(notes) or "no difference"


def _application(change: PlannedChange, policy: Policy) -> str:
    """Return the reason of a change that is applied; for a gateway, the reason that allows it now."""
    override, tags = policy.reason_for(change.key), policy.tag_reason_for(change.key)
    is_restart = change.stops_gateway and change.change_class not in (
        ChangeClass.CREATE,
        ChangeClass.RECREATE,
        ChangeClass.DELETE,
    )
    if is_restart and override is not None:
        return f"overridden: {override}"
    if is_restart and tags is not None and change.change_class in (ChangeClass.TAG_ONLY, ChangeClass.METADATA):
        return f"--write-tags: {tags}"
    if change.lost_id is not None:
        return f"{change.lost_id} was deleted outside this bundle; it is created again"
    if change.change_class in _APPLIED:
        return _APPLIED[change.change_class]
    if not change.stops_gateway or change.gateway is None:
        return "its settings changed in the bundle"
    return "the gateway is stopped" if change.gateway.phase is Phase.STOPPED else "no snapshot is running"


def state_text(state: GatewayState | None) -> str:
    """Describe the state of a gateway.

    Examples:
        >>> state_text(GatewayState(phase=Phase.CHANGES))
        'the gateway is capturing changes; the deployment is outside the window'
    """
    if state is None:
        return "the state of the gateway is unknown and treated as a running snapshot"
    if state.phase is Phase.CHANGES:
        return "the gateway is capturing changes; the deployment is outside the window"
    if state.phase is Phase.STOPPED:
        return "the gateway is stopped"
    if state.phase is Phase.UNKNOWN:
        cause = f" ({state.reason})" if state.reason else ""
        return f"the state of the gateway is unknown{cause} and treated as a running snapshot"
    tables = ", ".join(table_text(table) for table in state.tables if table.phase is Phase.SNAPSHOTTING)
    return f"a restart would lose {state.lost_hours:.1f} hours of snapshots: {tables}"


def table_text(table: TableSnapshot) -> str:
    """Describe a table's snapshot: its progress, the time left, whether it is read in chunks.

    Examples:
        >>> table_text(TableSnapshot(table="a.b.c", phase=Phase.SNAPSHOTTING, percent=62.5, chunkable=True))
        'a.b.c 62% (in chunks)'
        >>> table_text(TableSnapshot(table="a.b.c", phase=Phase.SNAPSHOTTING, percent=0, remaining_seconds=5400))
        'a.b.c 0% (1.5 h left, not chunked: no primary key, unique key or index)'
    """
    percent = "" if table.percent is None else f" {int(table.percent)}%"
    notes = [] if table.remaining_seconds is None else [f"{table.remaining_seconds / 3600:.1f} h left"]
    notes.append("in chunks" if table.chunkable else _CHUNKS_UNKNOWN if table.percent is None else _NOTHING_DONE)
    return f"{table.table}{percent} ({', '.join(notes)})"


def _refusal(change: PlannedChange) -> str:
    what = "deleting" if change.change_class is ChangeClass.DELETE else "recreating"
    if change.prevent_destroy:
        return f"prevent_destroy forbids {what} it"
    if change.is_protected:
        return (
            f"prevent_destroy was set in the last deployment and forbids {what} it; deploy the change of "
            "prevent_destroy first"
        )
    if change.stops_gateway and change.remote_id is not None:
        if change.gateway is None or change.gateway.phase in (Phase.SNAPSHOTTING, Phase.UNKNOWN):
            return f"{what} it stops the gateway: {state_text(change.gateway)}"
        if change.kind == "jobs":
            return f"{what} it stops its gateway; allow it with --allow-recreate {change.key}"
    return f"{what} it deletes its data; allow it with --allow-recreate {change.key}"
