"""Progress of each flow of a running update, computed from the update's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from framework.foundation.names import QualifiedName, ShortNames
from framework.record.events import Event, EventType

STARTED = frozenset({"STARTING", "RUNNING"})
GOOD = frozenset({"COMPLETED", "IDLE", "EXCLUDED"})
BAD = frozenset({"FAILED", "SKIPPED", "STOPPED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProgress:
    """Progress of one flow: its full names, its state, and its counts so far.

    Args:
        since: start of the flow; None before. `until` is its end.
        written: rows written to the target; None if unknown.
        failed: number of failed records, summed over all expectations.
        note: reason of its state, for people.
    """

    flow: str
    dataset: str
    status: str = "QUEUED"
    since: datetime | None = None
    until: datetime | None = None
    written: int | None = None
    upserted: int = 0
    deleted: int = 0
    failed: int = 0
    dropped: int = 0
    note: str = ""

    @property
    def ended(self) -> bool:
        """Whether its state is final."""
        return self.status in GOOD or self.status in BAD

    def seconds(self, now: datetime) -> float | None:
        """Return the seconds from its start to its end, or to `now` while it runs; None if it has not started."""
        return None if self.since is None else max(0.0, ((self.until or now) - self.since).total_seconds())


class FlowBoard:
    """Progress of the flows of one update, in the order of their first events."""

    def __init__(self) -> None:
        self.update_id = ""
        self.state = "INITIALIZING"
        self.began: datetime | None = None
        self.flows: dict[str, FlowProgress] = {}

    def take(self, event: Event) -> FlowProgress | None:
        """Apply an event; return the flow whose progress it changes, or None."""
        self.update_id = event.origin.update_id
        moment = datetime.fromisoformat(event.timestamp)
        self.began = self.began or moment
        details: Mapping[str, Any] = event.details.get(event.event_type.value, {})
        if event.event_type is EventType.UPDATE_PROGRESS:
            self.state = details["state"]
        if event.event_type is not EventType.FLOW_PROGRESS or event.origin.flow_name is None:
            return None
        name = event.origin.flow_name
        before = self.flows.get(name) or FlowProgress(flow=name, dataset=event.origin.dataset_name or name)
        self.flows[name] = _changed(before, details, moment, event.message)
        return self.flows[name]

    def short(self) -> ShortNames:
        """Return the short names of the flows."""
        return ShortNames.of(name for text in self.flows if (name := full_name(text)) is not None)


def full_name(text: str) -> QualifiedName | None:
    """Parse a name in an event; None if it does not have three parts."""
    parts = text.split(".")
    return QualifiedName(catalog=parts[0], schema=parts[1], table=parts[2]) if len(parts) == 3 else None


def flow_words(flow: str, dataset: str, short: ShortNames) -> str:
    """Return a flow's title as in the plan: its name, and its target if that has another name."""
    names = [short(name) if (name := full_name(text)) is not None else text for text in (flow, dataset)]
    return names[0] if flow == dataset else " into ".join(names)


def _changed(before: FlowProgress, details: Mapping[str, Any], moment: datetime, message: str) -> FlowProgress:
    status: str = details["status"]
    started = before.since or (moment if status in STARTED else None)
    after = replace(before, status=status, since=started, note=_note(message))
    counted = _counts(details)
    if after.ended:
        # The final event has the counts of the whole run; without them, the sums of its batches are kept.
        return replace(after, until=moment, **counted)
    written = counted.pop("written", None)
    summed = {name: getattr(before, name) + count for name, count in counted.items() if count is not None}
    if written is not None:
        summed["written"] = (before.written or 0) + written
    return replace(after, **summed)


def _counts(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts in an event, by this module's names; missing counts are omitted."""
    metrics, quality = details.get("metrics"), details.get("data_quality")
    counts: dict[str, Any] = {}
    for name, metric in (
        ("written", "num_output_rows"),
        ("upserted", "num_upserted_rows"),
        ("deleted", "num_deleted_rows"),
    ):
        if metrics and metric in metrics:
            counts[name] = metrics[metric]
    if quality:
        counts["failed"] = sum(each["failed_records"] for each in quality["expectations"])
        counts["dropped"] = quality["dropped_records"]
    return counts


def _note(message: str) -> str:
    """Return the reason in an event's message `Flow x is STATE: reason.`; empty without one."""
    return message.partition(": ")[2].removesuffix(".")
