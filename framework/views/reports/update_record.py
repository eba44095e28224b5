"""The last updates of a pipeline as the event log has them, each with its flows and the counts of its expectations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from framework.foundation.files.storage_port import Storage
from framework.record.events import Event, EventLevel, EventType
from framework.record.pages import EventPages
from framework.run.update.control.lock_holder import lock_holder
from framework.views.flow_board import BAD, GOOD, FlowBoard, FlowBoardTracker

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED", "LOST"})
"""The states of updates that do not change any more; LOST has no event, because its process ended without one."""

_LONGEST_ERROR = 2_000
_LOST = "Its process ended without a last event: it was killed, or its machine failed."


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCount:
    """The records that met an expectation of a dataset in one update, and those that failed it."""

    dataset: str
    name: str
    passed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRecord:
    """One update.

    Args:
        state: the state of its last event; LOST if it has no end and its process is gone.
        created_at: the time of its first event, ISO 8601 in UTC. `ended_at` is that of its end; None before.
        error: the first error; empty without one.
        board: its flows.
        quality: the counts of its expectations, by dataset and name.
    """

    update_id: str
    request_id: str
    attempt: int = 1
    state: str = "CREATED"
    cause: str = ""
    user: str | None = None
    created_at: str
    ended_at: str | None = None
    error: str = ""
    board: FlowBoard = field(default_factory=FlowBoard)
    quality: tuple[QualityCount, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Its duration; None before its end."""
        return seconds_between(self.created_at, self.ended_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """The attempts of one request, oldest first; its outcome is that of the last one."""

    attempts: tuple[UpdateRecord, ...]

    @property
    def last(self) -> UpdateRecord:
        """The last attempt."""
        return self.attempts[-1]

    @property
    def created_at(self) -> str:
        """The start of the first attempt."""
        return self.attempts[0].created_at

    @property
    def seconds(self) -> float | None:
        """The time from the start of the first attempt to the end of the last one; None before it."""
        return seconds_between(self.created_at, self.last.ended_at)


def read_updates(storage: Storage, pipeline: str, cache: Path, *, most: int) -> tuple[UpdateRecord, ...]:
    """Return the newest updates of a pipeline, oldest first.

    Args:
        storage: the storage with the event log, which several pipelines may share.
        pipeline: the pipeline's name.
        cache: the user's cache folder, with the index of the log.
        most: the largest number of updates.
    """
    holder = lock_holder(storage)
    running = None if holder is None else holder.update_id
    pages = EventPages(storage, cache)
    created = pages.page(limit=most, type=EventType.CREATE_UPDATE).events
    names = [each.origin.update_id for each in created if each.origin.pipeline_name == pipeline]
    found = (update_record(pages.page(limit=None, update_id=each).events, running) for each in dict.fromkeys(names))
    return tuple(found)


def update_record(events: Sequence[Event], running: str | None = None) -> UpdateRecord:
    """Return the update of some events.

    Args:
        events: all events of one update, oldest first, at least one.
        running: the update that holds the lock; None if there is none.
    """
    first = events[0]
    record = UpdateRecord(
        update_id=first.origin.update_id, request_id=first.origin.update_id, created_at=first.timestamp
    )
    board, counts = FlowBoardTracker(), QualityCounter()
    for event in events:
        board(event)
        counts(event)
        record = _after(record, event)
    record = replace(record, board=board.board, quality=counts.counts)
    if record.state in ENDED or record.update_id == running:
        return record
    return replace(record, state="LOST", error=record.error or _LOST)


def requests_of(updates: Iterable[UpdateRecord]) -> tuple[RequestRecord, ...]:
    """Return updates folded into their requests, oldest first by their last attempt."""
    found: dict[str, tuple[UpdateRecord, ...]] = {}
    for update in updates:
        found[update.request_id] = (*found.pop(update.request_id, ()), update)
    return tuple(RequestRecord(attempts=attempts) for attempts in found.values())


class QualityCounter:
    """Sums the counts of expectations in one update; the end of a flow's run has those of the whole run."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], QualityCount] = {}

    def __call__(self, event: Event) -> None:
        """Apply an event."""
        details: Mapping[str, Any] = event.details.get(EventType.FLOW_PROGRESS.value, {})
        quality = details.get("data_quality")
        if not quality or "interval_seconds" in (details.get("metrics") or {}):
            return
        is_end = details.get("status") in GOOD | BAD
        for each in quality["expectations"]:
            key = (event.origin.flow_name or "", each["dataset"], each["name"])
            found = QualityCount(
                dataset=each["dataset"], name=each["name"], passed=each["passed_records"], failed=each["failed_records"]
            )
            before = self._sums.get(key)
            self._sums[key] = found if is_end or before is None else _sum(before, found)

    @property
    def counts(self) -> tuple[QualityCount, ...]:
        """The counts by dataset and expectation, summed over flows."""
        found: dict[tuple[str, str], QualityCount] = {}
        for (_, *key), each in self._sums.items():
            before = found.get((key[0], key[1]))
            found[key[0], key[1]] = each if before is None else _sum(before, each)
        return tuple(found.values())


def _sum(first: QualityCount, second: QualityCount) -> QualityCount:
    return replace(first, passed=first.passed + second.passed, failed=first.failed + second.failed)


def _after(record: UpdateRecord, event: Event) -> UpdateRecord:
    details: Mapping[str, Any] = event.details.get(event.event_type.value, {})
    if event.event_type is EventType.CREATE_UPDATE:
        record = replace(
            record,
            request_id=details.get("request_id") or record.update_id,
            attempt=details.get("attempt", 1),
            cause=details.get("cause", ""),
            user=details.get("user_name"),
        )
    elif event.event_type is EventType.UPDATE_PROGRESS:
        ended = event.timestamp if details["state"] in ENDED else None
        record = replace(record, state=details["state"], ended_at=ended)
    if event.level is EventLevel.ERROR and event.error is not None and not record.error:
        record = replace(record, error=_error_text(event))
    return record


def _error_text(event: Event) -> str:
    exceptions = event.error.exceptions if event.error is not None else ()
    text = exceptions[0].message if exceptions else event.message
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def seconds_between(start: str, end: str | None) -> float | None:
    """Return the seconds between two times of the event log; None without an end."""
    if end is None:
        return None
    return max((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 0.0)
