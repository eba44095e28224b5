"""The status of gateways and their tables, from checkpoints, requests, events and the source; without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.foundation.errors import SluiceError, SourceError
from framework.foundation.files.storage_port import Storage
from framework.ingest.confirmation import staged_position
from framework.ingest.connections import (
    gateway_dialect,
    gateway_facts,
    gateway_log,
    open_gateway,
    source_name,
    table_names,
)
from framework.ingest.gaps import gap_of, is_lost, is_table_gap, way_out_of
from framework.ingest.gateway_status import GatewayStatus, IngestedState, SnapshotProgress, TableStatus
from framework.ingest.progress import Sizes, snapshot_progress
from framework.ingest.state import GatewayState, GatewayStore, Mode, Request, TableState
from framework.ingest.waits import waits_of
from framework.record.events import Event, EventType
from framework.record.reader import newest_events
from framework.sources.databases.dialects import is_log_in_use
from framework.sources.databases.position import position_of
from framework.sources.databases.source_session import LogName
from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from framework.sources.databases.source_session import LogReach, LogStatus, SourceSession

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]")
_ENDED_WELL = frozenset({"COMPLETED", "IDLE"})
_ROWS = ("num_output_rows", "num_upserted_rows", "num_deleted_rows")
_LOCK_SECONDS = 2.0
_LONGEST_SECONDS = 100 * 365 * 86400.0
_OTHER_STORAGE = "INGESTION_OF_OTHER_STORAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The answer of the source about one gateway."""

    sizes: Sizes = field(default_factory=dict)
    log: LogStatus | None = None
    reach: LogReach | None = None
    gap: str | None = None
    table_gaps: Mapping[str, str] = field(default_factory=dict)
    children: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    waits: tuple[str, ...] = ()
    error: str | None = None


def read_status(storage: Storage, now: datetime, gateway: str | None = None) -> tuple[GatewayStatus, ...]:
    """Return the status of the gateways that an update has run and the last update declared.

    Args:
        storage: the pipeline's storage.
        now: the time, for the lag.
        gateway: name of the gateway to read; None for all.
    """
    declared = (each for each in GatewayStore(storage).read_all() if each.is_declared)
    states = [each for each in declared if gateway in (None, each.gateway.name)]
    failures = _last_failures(storage, _open_flows(states, storage))
    return tuple(_gateway_status(each, storage, now, failures) for each in states)


def gap_of_table(storage: Storage, gateway: str, key: str) -> str | None:
    """Return the condition of the gap of a table or its gateway, even if a snapshot is requested; None without a gap.

    Args:
        storage: the pipeline's storage.
        gateway: name of the gateway.
        key: the key of the copy in states.
    """
    state = GatewayStore(storage).read(gateway)
    table = None if state is None else state.table(key)
    if state is None or table is None:
        return None
    failures, answer = _last_failures(storage, _open_flows([state], storage)), _ask(state, storage)
    is_read = staged_position(state, storage) is not None or snapshot_progress(table.table, storage, None).chunks > 0
    error = _error_of(table, answer, failures, is_read=is_read)
    return _gateway_gap(state, answer, failures) or (error if is_table_gap(error) else None)


def position_gap(storage: Storage, state: GatewayState) -> str | None:
    """Return the condition why the log can't be read on from the staged changes; None if it can, or if unknown.

    Args:
        storage: the pipeline's storage.
        state: the gateway.
    """
    return _ask(state, storage).gap


def lost_operations(storage: Storage, state: GatewayState) -> SourceError | None:
    """Return the error if the last update found that the log lacks operations; None without one.

    The record of that update is the only trace of the loss: the log may have all operations again.

    Args:
        storage: the pipeline's storage.
        state: the gateway.
    """
    changes = str(state.gateway.changes)
    if stored_offset(state, storage) is None:
        return None
    failure = _last_failures(storage, {changes}).get(changes, "")
    gap = gateway_dialect(state.gateway).remembered_gap(failure, gateway_log(state.gateway)) if failure else None
    return None if gap is None else gap.error()


def read_from_other_log(storage: Storage, state: GatewayState, log: LogName) -> SourceError | None:
    """Detect staged changes that were read from another log; None without such changes.

    Changes that will be staged again may be read from any log.

    Args:
        storage: the pipeline's storage.
        state: the gateway.
        log: the log that the pipeline code names.
    """
    is_rebuilt = GenerationStore(storage).building(state.gateway.changes, state.gateway.changes) is not None
    offset = None if is_rebuilt else stored_offset(state, storage)
    with suppress(SourceError):  # a damaged offset; the flow of the changes fails with it
        gap = None if offset is None else gateway_dialect(state.gateway).other_log(offset, log)
        return None if gap is None else gap.error()
    return None


def _gateway_gap(state: GatewayState, answer: _Answer, failures: Mapping[str, str]) -> str | None:
    if (
        failures.get(str(state.gateway.changes)) == _OTHER_STORAGE
    ):  # the other storage is the rightful reader of the log
        return None
    return answer.gap or gap_of(failures.get(str(state.gateway.changes)))


def _refusal_of(gap: str | None, request: Request, state: GatewayState, failures: Mapping[str, str]) -> str | None:
    """Return the condition why the last update did not get the new log that is still requested; else None."""
    failure = failures.get(str(state.gateway.changes))
    is_refused = gap is not None and request.generation > state.log_generation and gap_of(failure) is None
    return failure if is_refused else None


def _error_of(state: TableState, answer: _Answer, failures: Mapping[str, str], *, is_read: bool) -> str | None:
    """Return the condition of the error of a table; before anything is read, any table of its name is accepted."""
    table = state.table
    gap = answer.table_gaps.get(table.key) if is_read else None
    return gap or failures.get(str(table.snapshot_flow)) or failures.get(str(table.cdc_flow))


def _open_flows(states: Sequence[GatewayState], storage: Storage) -> set[str]:
    """Return the flows that may have failed in their last run; flows of complete snapshots are left out."""
    generations = GenerationStore(storage)
    flows = {str(state.gateway.changes) for state in states}
    for table in (each.table for state in states for each in state.tables if each.is_declared):
        current = generations.current(table.target, table.snapshot_flow)
        flows.add(str(table.cdc_flow))
        if current is None or not current.completed:
            flows.add(str(table.snapshot_flow))
    return flows


def _gateway_status(state: GatewayState, storage: Storage, now: datetime, failures: Mapping[str, str]) -> GatewayStatus:
    store, gateway = GatewayStore(storage), state.gateway
    staged, offset = staged_position(state, storage), stored_offset(state, storage)
    position = None if staged is None or offset is None else position_of(offset)
    answer = _ask(state, storage, failures)
    request = store.request(gateway.name)
    is_paused = request.mode is Mode.PAUSED
    requests = store.table_requests(gateway.name)
    reach = answer.reach
    lag_seconds = _lag_seconds(reach, _seconds_since_staged(state, storage, now))
    gap = _gateway_gap(state, answer, failures)
    refused = _refusal_of(gap, request, state, failures)
    way_out = None if gap is None or refused else way_out_of(gap, "", gateway.table_list)
    tables = []
    for each in (each for each in state.tables if each.is_declared):
        table, asked = each.table, requests.get(each.table.key, Request())
        name = source_name(table)
        size = answer.sizes.get(name)
        progress = snapshot_progress(table, storage, size[0] if size else None)
        # A snapshot that was cancelled or skipped is not tried again.
        is_ended = asked.mode in (Mode.CANCELLED, Mode.SKIPPED)
        known = {flow: found for flow, found in failures.items() if not is_ended or flow != str(table.snapshot_flow)}
        error = _error_of(each, answer, known, is_read=staged is not None or progress.chunks > 0)
        found = _state_of(each, asked, progress, is_paused=is_paused, gap=gap, error=error)
        is_gap = found is IngestedState.GAP
        tables.append(
            TableStatus(
                source=table.source,
                target=table.target,
                state=found,
                generation=each.number,
                snapshot=progress,
                lag_bytes=None if reach is None else reach.behind_bytes,
                lag_seconds=lag_seconds,
                error=refused or gap or error,
                way_out=way_out if gap or not is_gap else way_out_of(error, gateway.name_of(table), gateway.table_list),
                children=answer.children.get(name, ()),
            )
        )
    return GatewayStatus(
        name=gateway.name,
        is_paused=is_paused,
        position_noun=gateway_facts(gateway).position_noun,
        position_name=gateway.position_name,
        log_status=answer.log,
        reach=reach,
        lost_at=None if reach is None or reach.lost_in_seconds is None else _later(now, reach.lost_in_seconds),
        position=position,
        gap=gap,
        is_lost=is_lost(gap),
        way_out=way_out,
        refused=refused,
        error=answer.error,
        waits=answer.waits,
        tables=tuple(tables),
    )


def _lag_seconds(reach: LogReach | None, since_staged: float | None) -> float | None:
    """Return the most time that a change may have waited, by the database or by our last commit, if either knows it."""
    known = (None if reach is None else reach.behind_seconds, since_staged)
    return min((each for each in known if each is not None), default=None)


def _later(now: datetime, seconds: float) -> datetime:
    """Return a time in the future; the last one for one beyond it."""
    return now + timedelta(seconds=min(seconds, _LONGEST_SECONDS))


def _state_of(
    state: TableState,
    request: Request,
    progress: SnapshotProgress,
    *,
    is_paused: bool,
    gap: str | None,
    error: str | None,
) -> IngestedState:
    is_asked = request.generation > state.number
    by_priority = (
        (gap is not None, IngestedState.GAP),
        (is_paused or request.mode is Mode.PAUSED, IngestedState.PAUSED),
        (is_table_gap(error) and not (is_asked and request.ends_gaps), IngestedState.GAP),
        (error is not None and not is_table_gap(error), IngestedState.FAILED),
        (is_asked, IngestedState.RESYNC),
        (progress.completed or request.mode is Mode.SKIPPED, IngestedState.FOLLOWING),
        (request.mode is Mode.CANCELLED, IngestedState.CANCELLED),
        (progress.is_read and state.current is not None, IngestedState.CONFIRMING),
        (progress.chunks > 0, IngestedState.SNAPSHOT),
    )
    return next((found for holds, found in by_priority if holds), IngestedState.WAITING)


def _ask(state: GatewayState, storage: Storage, failures: Mapping[str, str] = MappingProxyType({})) -> _Answer:
    gateway, waits = state.gateway, tuple[str, ...]()
    try:
        # Reading the size of a locked table waits for the lock as well.
        with open_gateway(gateway, lock_seconds=_LOCK_SECONDS) as source:
            waits = waits_of(source, gateway, is_refused=is_log_in_use(failures.get(str(gateway.changes))))
            offset = stored_offset(state, storage)
            gap = None if offset is None else source.find_gap(offset, gateway_log(gateway))
            return _Answer(
                sizes=source.read_sizes(table_names(gateway)),
                log=source.log_status(gateway_log(gateway)),
                reach=source.log_reach(offset if gap is None else None, gateway_log(gateway)),
                gap=None if gap is None else gap.condition,
                table_gaps=_table_gaps(source, state),
                children=source.read_children(table_names(gateway)),
                waits=waits,
            )
    except SluiceError as error:
        return _Answer(error=error.condition, waits=waits)


def _table_gaps(source: SourceSession, state: GatewayState) -> dict[str, str]:
    """Return the condition of each table that was replaced, or whose changes were not logged for some time."""
    gateway = state.gateway
    logged = source.logged_tables(gateway_log(gateway))
    found = source.read_tables(table_names(gateway)) if logged.has_log else {}
    gaps = {}
    for each in state.tables:
        name = source_name(each.table)
        table = found.get(name)
        if table is None or isinstance(table, SourceError):
            continue
        fault = logged.fault(table, each.continuity)
        if fault is not None:
            gaps[each.table.key] = fault.condition
    return gaps


def stored_offset(state: GatewayState, storage: Storage) -> str | None:
    """Return the stored offset in the current log; None before the first.

    Args:
        state: the gateway.
        storage: the pipeline's storage.
    """
    generations, changes = GenerationStore(storage), state.gateway.changes
    current = generations.current(changes, changes)
    if current is None or current.number < state.changes_checkpoint:
        return None
    return next(iter(read_progress(storage, generations.path(changes, changes, current.number)).sources), None)


def _seconds_since_staged(state: GatewayState, storage: Storage, now: datetime) -> float | None:
    commits = storage.list_files(f"{_changes_checkpoint(state, storage)}/commits")
    newest = max((file.modified_at for file in commits if file.name.isdecimal()), default=None)
    return None if newest is None else max(now.timestamp() - newest, 0.0)


def _changes_checkpoint(state: GatewayState, storage: Storage) -> str:
    generations, changes = GenerationStore(storage), state.gateway.changes
    current = generations.current(changes, changes)
    return generations.path(changes, changes, current.number if current else 1)


def _last_failures(storage: Storage, flows: set[str]) -> dict[str, str]:
    """Return the condition of the last failure of each flow without a later successful run.

    Each update records the end of each flow, so its newest events are enough.
    """
    failures: dict[str, str] = {}
    open_flows = set(flows)
    events = newest_events(storage, EventType.FLOW_PROGRESS) if open_flows else ()
    for event in events:
        name = event.origin.flow_name or ""
        if name not in open_flows:
            continue
        if event.error is not None:
            failures[name] = _condition(event)
        elif not _is_well(event):
            continue
        open_flows.discard(name)
        if not open_flows:
            break
    return failures


def _is_well(event: Event) -> bool:
    """Whether the flow succeeded or committed rows: a continuous flow keeps running after a retried failure."""
    details = event.details.get(EventType.FLOW_PROGRESS.value, {})
    metrics = details.get("metrics") or {}
    has_rows = any(metrics.get(name) for name in _ROWS) and "interval_seconds" not in metrics
    return details.get("status") in _ENDED_WELL or has_rows


def _condition(event: Event) -> str:
    exceptions: Sequence[object] = () if event.error is None else event.error.exceptions
    found = (_CONDITION.search(getattr(each, "message", "")) for each in exceptions)
    return next((match[1] for match in found if match), "UNKNOWN")
