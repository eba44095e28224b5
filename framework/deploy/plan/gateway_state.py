"""State of a gateway and each of its tables, from its event log; the guard treats an unknown state as a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

PROGRESS_SECONDS = 300.0
"""Default interval of a gateway's progress events."""
PROGRESS_SETTING = "pipelines.gateway.progressEventEmitFrequencySeconds"
_MIN_PROGRESS_SECONDS, _MAX_PROGRESS_SECONDS = 30.0, 3600.0

_RUNNING = frozenset({"STARTED", "IN_PROGRESS", "RUNNING"})
_FINISHED = frozenset({"COMPLETED"})
_STOPPED_UPDATE = frozenset({"COMPLETED", "FAILED", "CANCELED"})


class Phase(StrEnum):
    """Work that a restart of the gateway would interrupt, in descending order of severity."""

    SNAPSHOTTING = "snapshotting"
    UNKNOWN = "unknown"
    CHANGES = "changes"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayEvent:
    """The latest progress event of a gateway for one table and flow.

    Args:
        operation: whether it is an operation_progress of a snapshot; otherwise it is a flow_progress.
        began: time of the first event of its kind in its update.
    """

    at: datetime
    update_id: str
    table: str
    flow: str
    operation: bool
    status: str
    began: datetime | None = None
    percent: float | None = None
    remaining_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """One table of a gateway.

    Args:
        began: start of its snapshot in this update; None if unknown.
        chunkable: True if it is read in chunks: a part of it is done, or it has a key. None if unknown.
    """

    table: str
    phase: Phase
    percent: float | None = None
    remaining_seconds: float | None = None
    began: datetime | None = None
    chunkable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """State of a gateway and its tables at one time; `reason` explains an unknown phase."""

    phase: Phase
    tables: tuple[TableSnapshot, ...] = ()
    reason: str = ""
    lost_hours: float = 0.0


def gateway_state(
    *,
    update: tuple[str, str] | None,
    events: Sequence[GatewayEvent],
    now: datetime,
    interval_seconds: float = PROGRESS_SECONDS,
    ingested: Collection[str] | None = None,
    keyed: Collection[str] = (),
) -> GatewayState:
    """Return the state of a gateway from its latest update (id, state) and the latest events of its log.

    A table without a fresh event is unknown, even if its events are only in an earlier update, unless it is no longer
    ingested.

    Args:
        update: the latest update; None if the gateway never ran.
        now: current time, by which an event is fresh or stale.
        events: the latest event of each table and flow.
        interval_seconds: interval of the gateway's progress events.
        ingested: last parts of the names, in lower case, of all ingested tables; None if unknown.
        keyed: last parts of the names, in lower case, of tables that are known to have a key.
    """
    if update is None or update[1] in _STOPPED_UPDATE:
        return GatewayState(phase=Phase.STOPPED)
    stale_seconds = max(3 * interval_seconds, interval_seconds + 120)
    current = sorted((event for event in events if event.update_id == update[0]), key=lambda event: event.at)
    if not current:
        return GatewayState(phase=Phase.UNKNOWN, reason="its update has not reported progress yet")
    names = sorted({event.table for event in events})
    found = [_with_chunks(_table(name, current, now, stale_seconds), current, keyed) for name in names]
    tables = _without_removed(found, ingested)
    starts = [table.began for table in tables if table.phase is Phase.SNAPSHOTTING and table.began is not None]
    return GatewayState(
        phase=_worst(tables),
        tables=tables,
        reason=", ".join(f"no recent progress of {each.table}" for each in tables if each.phase is Phase.UNKNOWN),
        lost_hours=max(((now - began).total_seconds() / 3600 for began in starts), default=0.0),
    )


def worst_state(states: Sequence[GatewayState]) -> GatewayState:
    """Combine the states of several gateways: the worst phase, all tables, the longest loss.

    Examples:
        >>> worst_state((GatewayState(phase=Phase.CHANGES), GatewayState(phase=Phase.STOPPED))).phase.value
        'changes'
    """
    if len(states) == 1:
        return states[0]
    phases = {state.phase for state in states}
    return GatewayState(
        phase=next((phase for phase in Phase if phase in phases), Phase.STOPPED),
        tables=tuple(table for state in states for table in state.tables),
        reason=", ".join(state.reason for state in states if state.reason),
        lost_hours=max((state.lost_hours for state in states), default=0.0),
    )


def progress_seconds(spec: Mapping[str, Any]) -> float:
    """Return the interval of a gateway's progress events; the default for a value that the service does not accept.

    Examples:
        >>> progress_seconds({"configuration": {PROGRESS_SETTING: "60"}}), progress_seconds({})
        (60.0, 300.0)
    """
    setting = (spec.get("configuration") or {}).get(PROGRESS_SETTING)
    try:
        seconds = PROGRESS_SECONDS if setting is None else float(setting)
    except (TypeError, ValueError):
        return PROGRESS_SECONDS
    return seconds if _MIN_PROGRESS_SECONDS <= seconds <= _MAX_PROGRESS_SECONDS else PROGRESS_SECONDS


def _without_removed(tables: Sequence[TableSnapshot], ingested: Collection[str] | None) -> tuple[TableSnapshot, ...]:
    """Return the tables without unknown ones that are no longer ingested.

    This requires the same names in the log and in the bundle: at least one table with a known phase must match.
    """
    active = {_last_part(table.table) for table in tables if table.phase is not Phase.UNKNOWN}
    if ingested is None or not active & {*ingested}:
        return tuple(tables)
    return tuple(table for table in tables if table.phase is not Phase.UNKNOWN or _last_part(table.table) in ingested)


def _last_part(table: str) -> str:
    return table.rpartition(".")[2].lower()


def _table(name: str, current: Sequence[GatewayEvent], now: datetime, stale_seconds: float) -> TableSnapshot:
    """Return a table's state from its operation_progress events, else its snapshot flow, else its other flows."""
    mine = [event for event in current if event.table == name]
    operations = [event for event in mine if event.operation]
    snapshots = operations or [event for event in mine if event.flow.endswith("_snapshot_flow")]
    if not snapshots:
        fresh = any((now - event.at).total_seconds() <= stale_seconds for event in mine)
        return TableSnapshot(table=name, phase=Phase.CHANGES if fresh else Phase.UNKNOWN)
    newest = snapshots[-1]
    if any(event.status in _FINISHED and event.at >= newest.at for event in snapshots):
        return TableSnapshot(table=name, phase=Phase.CHANGES, percent=100.0)
    is_stale = (now - newest.at).total_seconds() > stale_seconds
    known = newest.status in _RUNNING and not is_stale
    return TableSnapshot(
        table=name,
        phase=Phase.SNAPSHOTTING if known else Phase.UNKNOWN,
        percent=newest.percent,
        remaining_seconds=newest.remaining_seconds,
        began=newest.began,
    )


def _with_chunks(table: TableSnapshot, current: Sequence[GatewayEvent], keyed: Collection[str]) -> TableSnapshot:
    """Return the table with `chunkable` set: a part of it is done, or it has a key."""
    percents = [event.percent for event in current if event.table == table.table and event.percent is not None]
    is_chunkable = any(0 < percent < 100 for percent in percents) or _last_part(table.table) in keyed
    return replace(table, chunkable=True if is_chunkable else None)


def _worst(tables: Sequence[TableSnapshot]) -> Phase:
    phases = {table.phase for table in tables}
    return next((phase for phase in (Phase.SNAPSHOTTING, Phase.UNKNOWN) if phase in phases), Phase.CHANGES)
