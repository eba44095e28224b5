"""Why the guard decides as it does, in words: which tables, how far, what a restart would lose."""

from __future__ import annotations

from framework.deploy.comparison import ChangeClass
from framework.deploy.decisions import Policy, Verdict
from framework.deploy.deploy_plan import PlannedChange
from framework.deploy.snapshots import GatewayState, Phase, TableSnapshot
from framework.foundation.wording import counted

_WHOLE = "no part of it done: without primary key, unique key or index it is read in one"
_UNTOLD = "whether in chunks is not told"


def reason_of(change: PlannedChange, policy: Policy) -> str:
    """One sentence for people, without its full stop; empty where the class says it all."""
    override = policy.reason_for(change.key)
    if change.verdict is Verdict.APPLY and change.is_gateway and override is not None:
        return f"overridden: {override}"
    if change.verdict is Verdict.DEFER:
        return "no call to the gateway; written with its next wanted change"
    if change.verdict is Verdict.REFUSE:
        return _refusal(change)
    if change.verdict in (Verdict.HOLD, Verdict.QUEUE, Verdict.UNKNOWN):
        return _waiting(change)
    return f"{counted(len(change.phantoms), 'field')} only spelled differently" if change.phantoms else ""


def state_text(state: GatewayState | None) -> str:
    """What a gateway is doing.

    Examples:
        >>> state_text(GatewayState(phase=Phase.CHANGES))
        'the gateway takes changes; outside of the window'
    """
    if state is None:
        return "what the gateway is doing is not known; that counts as a snapshot"
    if state.phase is Phase.CHANGES:
        return "the gateway takes changes; outside of the window"
    if state.phase is Phase.STOPPED:
        return "the gateway is stopped"
    if state.phase is Phase.UNKNOWN:
        return f"what the gateway is doing is not known ({state.reason}); that counts as a snapshot"
    tables = ", ".join(table_text(table) for table in state.tables if table.phase is Phase.SNAPSHOTTING)
    return f"a restart would lose {state.lost_hours:.1f} hours of snapshots: {tables}"


def table_text(table: TableSnapshot) -> str:
    """One table's snapshot: how far, how long still, whether in chunks.

    Examples:
        >>> table_text(TableSnapshot(table="a.b.c", phase=Phase.SNAPSHOTTING, percent=62.5, chunkable=True))
        'a.b.c 62% (in chunks)'
        >>> table_text(TableSnapshot(table="a.b.c", phase=Phase.SNAPSHOTTING, percent=0, left_seconds=5400))
        'a.b.c 0% (1.5 h left, no part of it done: without primary key, unique key or index it is read in one)'
    """
    percent = "" if table.percent is None else f" {int(table.percent)}%"
    notes = [] if table.left_seconds is None else [f"{table.left_seconds / 3600:.1f} h left"]
    notes.append("in chunks" if table.chunkable else _UNTOLD if table.percent is None else _WHOLE)
    return f"{table.table}{percent} ({', '.join(notes)})"


def _refusal(change: PlannedChange) -> str:
    what = "deleting" if change.change_class is ChangeClass.DELETE else "recreating"
    if change.prevent_destroy:
        return f"prevent_destroy forbids {what} it"
    if change.is_protected:
        return (
            f"prevent_destroy was in force at the last deploy and forbids {what} it; deploy the change of "
            "prevent_destroy alone first"
        )
    if change.is_gateway and change.gateway is not None and change.gateway.phase in (Phase.SNAPSHOTTING, Phase.UNKNOWN):
        return f"{what} it while {state_text(change.gateway)}"
    return f"{what} it loses all it holds; allow it with --allow-recreate {change.key}"


def _waiting(change: PlannedChange) -> str:
    """Why nothing is done for now."""
    if change.lost_id is not None:
        return (
            f"{change.lost_id} was deleted outside of this bundle: --allow-recreate {change.key} makes a new gateway, "
            f"which takes all its snapshots again; `sluice bundle bind {change.key} ID` adopts another one"
        )
    classes = {change.change_class, *(field.change_class for field in change.fields)}
    if ChangeClass.DRIFT in classes:
        return "its settings were changed outside of this bundle"
    return state_text(change.gateway)
