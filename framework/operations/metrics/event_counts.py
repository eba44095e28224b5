"""Counters of one pipeline, counted from the events of its log: updates, rows, expectations, and what runs now."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from itertools import accumulate
from pathlib import Path
from typing import Any

from framework.foundation.files.storage_port import Storage
from framework.record.events import Event, EventType
from framework.record.pages import EventPages
from framework.views.flow_board import BAD, GOOD, STARTED
from framework.views.reports.update_record import seconds_between

BUCKETS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 10_800.0, 43_200.0)
"""The upper bounds of the durations of updates, in seconds."""

_MOST_SEEDED = 20_000
_MOST_REMEMBERED = 100
"""The number of updates whose events are known to be counted."""
_COUNTED = (EventType.CREATE_UPDATE, EventType.UPDATE_PROGRESS, EventType.FLOW_PROGRESS, EventType.OPERATION_PROGRESS)
_ENDS = frozenset({"COMPLETED", "FAILED", "CANCELED"})
_ROWS = {
    "num_output_rows": "output",
    "num_upserted_rows": "upserted",
    "num_deleted_rows": "deleted",
    "num_quarantined_rows": "quarantined",
}


class Durations:
    """A histogram of durations."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative counts by upper bound, as Prometheus has them."""
        bounds = [*(f"{each:g}" for each in BUCKETS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


class PipelineCounts:
    """Counters that only grow, and the state of what runs; each event is counted once, however often it is applied.

    Args:
        pipeline: the name of the pipeline; events of others in the same storage are left out.
    """

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.updates: Counter[tuple[str, str]] = Counter()
        """Updates by result and cause; LOST if one never ended."""
        self.seconds = Durations()
        self.rows: Counter[tuple[str, str]] = Counter()
        """Rows by flow and kind: output, upserted, deleted, dropped, quarantined."""
        self.expectations: Counter[tuple[str, str, str]] = Counter()
        """Records by dataset, expectation and `passed` or `failed`."""
        self.states: dict[str, str] = {}
        """The state of each flow of the running update, and of those whose last run failed."""
        self.snapshots: dict[str, float] = {}
        """The progress of each open snapshot by dataset, in percent."""
        self._open: dict[str, tuple[str, str]] = {}
        self._seen: dict[str, int] = {}
        self._runs: dict[str, _FlowRun] = {}

    def seed(self, storage: Storage, cache: Path) -> None:
        """Count what the log has: its last 20,000 events of each counted type.

        Args:
            storage: the pipeline's storage.
            cache: the user's cache folder, with the index of the log.
        """
        pages = EventPages(storage, cache)
        found = [event for type_ in _COUNTED for event in pages.page(limit=_MOST_SEEDED, type=type_).events]
        self.apply_all(sorted(found, key=lambda each: (each.timestamp, each.origin.update_id, each.sequence)))

    def apply_all(self, events: Iterable[Event]) -> None:
        """Count events, oldest first."""
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Count an event."""
        update_id = event.origin.update_id
        if event.origin.pipeline_name != self.pipeline or event.event_type not in _COUNTED:
            return
        if event.sequence <= self._seen.get(update_id, 0):
            return
        self._seen[update_id] = event.sequence
        details: Mapping[str, Any] = event.details.get(event.event_type.value, {})
        if event.event_type is EventType.CREATE_UPDATE:
            self._begin(update_id, str(details.get("cause", "")), event.timestamp)
        elif event.event_type is EventType.UPDATE_PROGRESS:
            self._progress(update_id, str(details.get("state", "")), event.timestamp)
        elif event.event_type is EventType.FLOW_PROGRESS and event.origin.flow_name is not None:
            self._flow(event.origin.flow_name, details)
        elif event.event_type is EventType.OPERATION_PROGRESS and event.origin.dataset_name is not None:
            self._operation(event.origin.dataset_name, details)

    def settle(self, running: str | None) -> None:
        """Count open updates whose process is gone as LOST.

        Args:
            running: the update that runs now; None if none does.
        """
        for update_id in [each for each in self._open if each != running]:
            cause, _ = self._open.pop(update_id)
            self.updates["LOST", cause] += 1
        if running is None:
            self._end_runs()

    def copy(self) -> PipelineCounts:
        """Return a copy, which later events do not change."""
        return deepcopy(self)

    def _begin(self, update_id: str, cause: str, since: str) -> None:
        self.settle(None)  # one update runs at a time: an earlier one without an end is lost
        self._open[update_id] = (cause, since)
        self._seen = dict([*self._seen.items()][-_MOST_REMEMBERED:])

    def _progress(self, update_id: str, state: str, at: str) -> None:
        if state not in _ENDS or update_id not in self._open:
            return
        cause, since = self._open.pop(update_id)
        self.updates[state, cause] += 1
        self.seconds.observe(seconds_between(since, at) or 0.0)
        self._end_runs()

    def _end_runs(self) -> None:
        """Forget what is known of running flows."""
        self._runs, self.snapshots = {}, {}
        self.states = {flow: state for flow, state in self.states.items() if state == "FAILED"}

    def _flow(self, flow: str, details: Mapping[str, Any]) -> None:
        status, metrics = str(details.get("status", "")), details.get("metrics") or {}
        if "interval_seconds" in metrics:
            return  # a summary of events that were counted
        self.states[flow] = status
        run = self._runs.setdefault(flow, _FlowRun())
        is_end = status in GOOD | BAD
        if status in STARTED and run.has_ended:
            run = self._runs[flow] = _FlowRun()
        run.has_ended = is_end
        for key, added in run.added(_counts(metrics, details.get("data_quality") or {}), is_total=is_end).items():
            if key[0] == "rows":
                self.rows[flow, key[1]] += added
            else:
                self.expectations[key[0], key[1], key[2]] += added

    def _operation(self, dataset: str, details: Mapping[str, Any]) -> None:
        percent = details.get("progress_percent")
        if details.get("type") != "CDC_SNAPSHOT" or percent is None:
            return
        self.snapshots[dataset] = float(percent)


class _FlowRun:
    """The counts of one run of a flow so far: batches add up, and its end has those of the whole run."""

    def __init__(self) -> None:
        self.has_ended = False
        self._counts: dict[tuple[str, ...], int] = {}

    def added(self, counts: Mapping[tuple[str, ...], int], *, is_total: bool) -> dict[tuple[str, ...], int]:
        """Return what an event adds to the counters, which never fall."""
        found = {}
        for key, count in counts.items():
            before = self._counts.get(key, 0)
            found[key] = max(count - before if is_total else count, 0)  # a known 0 is a sample, too
            self._counts[key] = before + found[key]
        return found


def _counts(metrics: Mapping[str, Any], quality: Mapping[str, Any]) -> dict[tuple[str, ...], int]:
    """Return the counts of an event: ("rows", kind), or (dataset, expectation, outcome)."""
    counts: dict[tuple[str, ...], int] = {
        ("rows", kind): int(metrics[name]) for name, kind in _ROWS.items() if metrics.get(name) is not None
    }
    if quality:
        counts["rows", "dropped"] = quality["dropped_records"]
        for each in quality["expectations"]:
            counts[each["dataset"], each["name"], "passed"] = each["passed_records"]
            counts[each["dataset"], each["name"], "failed"] = each["failed_records"]
    return counts
