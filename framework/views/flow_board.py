"""The flow board: the state and the counts of each flow during an update.

A `FlowBoardTracker` computes the board from the events of the update. Terminals, notebooks and pages display the same
board.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from framework.foundation.names import QualifiedName, ShortNames
from framework.foundation.wording import counted, quality_text, rows_text, seconds_text
from framework.record.events import Event, EventLevel, EventType
from framework.views.table import Cell, Column, Table, Tone

STARTED = frozenset({"STARTING", "RUNNING"})
GOOD = frozenset({"COMPLETED", "IDLE", "EXCLUDED"})
BAD = frozenset({"FAILED", "SKIPPED", "STOPPED"})
TONES = {
    "COMPLETED": Tone.GOOD,
    "FAILED": Tone.BAD,
    "DEGRADED": Tone.WARNING,
    "SKIPPED": Tone.WARNING,
    "STOPPED": Tone.WARNING,
    "QUEUED": Tone.QUIET,
    "IDLE": Tone.QUIET,
    "EXCLUDED": Tone.QUIET,
}
"""The tone of each state of a flow; other states have none."""

_WARNINGS = frozenset({EventType.PLANNING_INFORMATION, EventType.OPERATION_PROGRESS, EventType.USER_ACTION})
_PRIORITY = ("FAILED", "DEGRADED", "RUNNING", "STARTING", "STOPPED", "SKIPPED", "COMPLETED", "QUEUED")
FLOW_COLUMNS = (
    Column(name="flow", wraps=False),
    Column(name="state"),
    Column(name="rows", right=True),
    Column(name="time", right=True),
    Column(name="expectations"),
    Column(name="reason"),
)
"""The columns of a table of flows."""


def is_warning(event: Event) -> bool:
    """Return whether an event, other than a flow's state, is a warning for the person who watches the update."""
    return event.level is EventLevel.WARN and event.event_type in _WARNINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProgress:
    """The progress of one flow: its full names, its state, and its counts so far.

    Args:
        state: Lakeflow's state; DEGRADED while a failed flow of a continuous update waits for its next start.
        started_at: the start of the latest run; None before the first. `ended_at` is its end.
        written: rows written to the target; None if unknown.
        failed: number of failed records, summed over all expectations.
        reason: the reason of its state; empty without one.
    """

    flow: str
    dataset: str
    state: str = "QUEUED"
    started_at: datetime | None = None
    ended_at: datetime | None = None
    written: int | None = None
    upserted: int = 0
    deleted: int = 0
    failed: int = 0
    dropped: int = 0
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether the latest run has ended."""
        return self.state in GOOD or self.state in BAD

    def seconds(self, now: datetime) -> float | None:
        """Return the duration of the latest run, up to `now` if it is running; None if the flow has not started."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())

    @property
    def rows(self) -> str:
        """The numbers of written rows as text."""
        return rows_text(self.written, self.upserted, self.deleted)

    @property
    def quality(self) -> str:
        """The numbers of failed and dropped records as text."""
        return quality_text(self.failed, self.dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBoard:
    """The progress of the flows of one update, in the order in which their first events arrived."""

    update_id: str = ""
    state: str = "INITIALIZING"
    flows: tuple[FlowProgress, ...] = ()

    def title(self, flow: FlowProgress) -> str:
        """Return a flow's short name, followed by its target if the names differ."""
        return _title(flow, self._short())

    def titles(self) -> dict[str, str]:
        """Return the title of each flow by its full name."""
        short = self._short()
        return {flow.flow: _title(flow, short) for flow in self.flows}

    def table(self, now: datetime) -> Table:
        """Return one row for each flow, without empty columns."""
        short = self._short()
        return Table.of(FLOW_COLUMNS, [_row(flow, short, now) for flow in self.flows]).without_empty_columns()

    def to_json(self, now: datetime) -> dict[str, Any]:
        """Return the board as JSON values, with full names."""
        return {
            "update_id": self.update_id,
            "state": self.state,
            "flows": [_flow_json(flow, now) for flow in self.flows],
        }

    def excerpt(self, most: int) -> FlowBoard:
        """Return the board with at most this many flows: failed flows first, then running, and queued flows last."""
        if len(self.flows) <= most:
            return self
        chosen = set(sorted(range(len(self.flows)), key=lambda index: _priority(self.flows[index]))[:most])
        return replace(self, flows=tuple(flow for index, flow in enumerate(self.flows) if index in chosen))

    def tally(self) -> str:
        """Return the numbers of flows that are done, not done and still open, in words."""
        done = sum(flow.state in GOOD for flow in self.flows)
        bad = sum(flow.state in BAD for flow in self.flows)
        parts = ((done, "done"), (bad, "not done"), (len(self.flows) - done - bad, "more"))
        return ", ".join(f"{counted(count, 'flow')} {word}" for count, word in parts if count)

    def without(self, flows: Iterable[FlowProgress]) -> FlowBoard:
        """Return the board without some of its flows."""
        names = {flow.flow for flow in flows}
        return replace(self, flows=tuple(flow for flow in self.flows if flow.flow not in names))

    def _short(self) -> ShortNames:
        return ShortNames.of(name for flow in self.flows if (name := qualified(flow.flow)) is not None)

    def with_states(self, states: Sequence[FlowProgress]) -> FlowBoard:
        """Return the board updated with states, reasons and counts that may be newer than the events."""
        known = {flow.flow: flow for flow in self.flows}
        for each in states:
            flow = known.get(each.flow, each)
            running = each.state in STARTED
            known[each.flow] = replace(
                flow,
                state=each.state,
                reason=each.reason,
                # A run may end before an event records its end.
                started_at=flow.started_at if running else None,
                ended_at=flow.ended_at if running else None,
                # The end of the run has the counts of batches whose events have none.
                written=max((rows for rows in (flow.written, each.written) if rows is not None), default=None),
                upserted=max(flow.upserted, each.upserted),
                deleted=max(flow.deleted, each.deleted),
                failed=max(flow.failed, each.failed),
                dropped=max(flow.dropped, each.dropped),
            )
        return replace(self, flows=tuple(known.values()))


class FlowBoardTracker:
    """Computes the board of one update from its events; thread-safe.

    Args:
        state: the state of the update before its first event.
    """

    def __init__(self, *, state: str = "INITIALIZING") -> None:
        self._lock = threading.Lock()
        self._update_id = ""
        self._state = state
        self._flows: dict[str, FlowProgress] = {}

    def __call__(self, event: Event) -> FlowProgress | None:
        """Apply an event; return the flow whose progress changes, or None."""
        with self._lock:
            return self._apply(event)

    @property
    def board(self) -> FlowBoard:
        """The board after the latest event."""
        with self._lock:
            return FlowBoard(update_id=self._update_id, state=self._state, flows=tuple(self._flows.values()))

    def _apply(self, event: Event) -> FlowProgress | None:
        self._update_id = event.origin.update_id
        details: Mapping[str, Any] = event.details.get(event.event_type.value, {})
        if event.event_type is EventType.UPDATE_PROGRESS:
            self._state = details.get("state", self._state)
        if event.event_type is EventType.OPERATION_PROGRESS and "waits_for" in details:
            return self._waits(event, details["waits_for"])
        if event.event_type is not EventType.FLOW_PROGRESS or event.origin.flow_name is None or "status" not in details:
            return None
        if "interval_seconds" in (details.get("metrics") or {}):
            return None  # a summary of events that were already applied
        name = event.origin.flow_name
        before = self._flows.get(name) or FlowProgress(flow=name, dataset=event.origin.dataset_name or name)
        self._flows[name] = _after(before, event, details)
        return self._flows[name]

    def _waits(self, event: Event, reason: str) -> FlowProgress | None:
        """Apply an event about a flow's wait; an empty reason ends the wait."""
        name = event.origin.flow_name
        if name is None:
            return None
        before = self._flows.get(name) or FlowProgress(flow=name, dataset=event.origin.dataset_name or name)
        self._flows[name] = replace(before, reason=reason)
        return self._flows[name]


def _after(before: FlowProgress, event: Event, details: Mapping[str, Any]) -> FlowProgress:
    """Return a flow's progress after an event."""
    state: str = details["status"]
    if state == "QUEUED" and event.error is not None:
        state = "DEGRADED"
    time = datetime.fromisoformat(event.timestamp)
    after = replace(before, state=state, reason=_reason(event.message))
    counts = _counts(details)
    if state in STARTED:
        if before.started_at is None or before.ended_at is not None:
            after = replace(after, started_at=time, ended_at=None)
    elif state == "IDLE":
        # An idle flow reports its state every minute, but not the end of its run.
        after = replace(after, started_at=None, ended_at=None)
    elif after.ended or state == "DEGRADED":
        after = replace(after, ended_at=before.ended_at or time)
        if state != "DEGRADED":
            # The last event has the counts of the whole run. If it has none, the sums of the batches are kept.
            return replace(after, **counts)
    # A report without rows neither changes the sums nor turns an unknown count into a known one.
    summed: dict[str, Any] = {name: (getattr(before, name) or 0) + count for name, count in counts.items() if count}
    return replace(after, **summed)


def _counts(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of an event by the field names of `FlowProgress`; missing counts are omitted."""
    metrics, quality = details.get("metrics") or {}, details.get("data_quality")
    fields = {"num_output_rows": "written", "num_upserted_rows": "upserted", "num_deleted_rows": "deleted"}
    counts: dict[str, Any] = {field: metrics[name] for name, field in fields.items() if metrics.get(name) is not None}
    if quality:
        counts["failed"] = sum(each["failed_records"] for each in quality["expectations"])
        counts["dropped"] = quality["dropped_records"]
    return counts


def _reason(message: str) -> str:
    """Return the reason from an event's message `Flow x is STATE: reason.`; empty if there is none."""
    return message.partition(": ")[2].removesuffix(".")


def qualified(name: str) -> QualifiedName | None:
    """Parse a full name in an event; None if it does not have three parts."""
    parts = name.split(".")
    return QualifiedName(catalog=parts[0], schema=parts[1], table=parts[2]) if len(parts) == 3 else None


def title_of(flow: str, dataset: str) -> str:
    """Return a flow's name, followed by its target if the names differ."""
    return flow if flow == dataset else f"{flow} into {dataset}"


def _title(flow: FlowProgress, short: ShortNames) -> str:
    names = [short(name) if (name := qualified(text)) is not None else text for text in (flow.flow, flow.dataset)]
    return title_of(*names)


def _row(flow: FlowProgress, short: ShortNames, now: datetime) -> tuple[Cell, ...]:
    tone = TONES.get(flow.state)
    return (
        Cell(text=_title(flow, short), tone=tone if tone is Tone.QUIET else None),
        Cell(text=flow.state, tone=tone),
        Cell(text=flow.rows),
        Cell(text=seconds_text(flow.seconds(now)), tone=Tone.QUIET),
        Cell(text=flow.quality, tone=Tone.WARNING),
        Cell(text=flow.reason, tone=Tone.QUIET),
    )


def _flow_json(flow: FlowProgress, now: datetime) -> dict[str, Any]:
    seconds = flow.seconds(now)
    return {
        "flow": flow.flow,
        "dataset": flow.dataset,
        "state": flow.state,
        "reason": flow.reason,
        "rows_written": flow.written,
        "rows_upserted": flow.upserted,
        "rows_deleted": flow.deleted,
        "rows_dropped": flow.dropped,
        "records_failed": flow.failed,
        "seconds": None if seconds is None else round(seconds, 3),
    }


def _priority(flow: FlowProgress) -> tuple[int, float]:
    """Return the sort key of an excerpt; among ended flows, the one that ended last comes first."""
    ended = flow.ended_at.timestamp() if flow.ended_at else 0.0
    return _PRIORITY.index(flow.state) if flow.state in _PRIORITY else len(_PRIORITY), -ended
