"""What the event log says about each flow: its last event, its last backlog, and whether its update runs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.record.events import Event, EventType
from framework.record.reader import read_events
from framework.sources.port import UNKNOWN_LAG, Lag

LAST_EVENTS = 20_000
"""The number of progress events in which the last one of each flow is looked for."""
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})
_UPDATES = frozenset({EventType.CREATE_UPDATE, EventType.UPDATE_PROGRESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRecord:
    """The state of one flow in the event log.

    Args:
        last: its last event; None without one.
        backlog: the last backlog that an event has.
        error: the error of the last event; empty without one.
    """

    last: Event | None = None
    backlog: Lag = UNKNOWN_LAG
    error: str = ""

    @property
    def status(self) -> str:
        """The status in the last event; empty without one."""
        return "" if self.last is None else str(_details(self.last).get("status", ""))


class FlowJournal:
    """The records of all flows, and the last update; events are applied oldest first."""

    def __init__(self) -> None:
        self._records: dict[str, FlowRecord] = {}
        self._update_id: str | None = None
        self._state: str | None = None
        self._flows: set[str] = set()
        self.is_continuous = False
        """Whether the last update is continuous, so that each of its flows reports regularly."""

    @classmethod
    def read(cls, storage: Storage) -> FlowJournal:
        """Return the journal of a storage."""
        found = cls()
        last = read_events(storage, type=EventType.UPDATE_PROGRESS, last=1)
        for event in last:
            update_id = event.origin.update_id
            for each in read_events(storage, type=EventType.CREATE_UPDATE, update_id=update_id, last=1):
                found.apply(each)
            found.apply(event)
            if not found.has_ended:
                for each in read_events(storage, type=EventType.FLOW_DEFINITION, update_id=update_id):
                    found.apply(each)
        for event in read_events(storage, type=EventType.FLOW_PROGRESS, last=LAST_EVENTS):
            found.apply(event)
        return found

    def copy(self) -> FlowJournal:
        """Return a copy, which later events do not change."""
        found = copy(self)
        found._records, found._flows = {**self._records}, {*self._flows}  # noqa: SLF001 - the same class
        return found

    @property
    def has_ended(self) -> bool:
        """Whether the last update has an end; True without an update."""
        return self._state is None or self._state in _ENDED

    def record(self, flow: QualifiedName) -> FlowRecord:
        """Return the record of a flow; an empty one without an event."""
        return self._records.get(str(flow), FlowRecord())

    def is_in_update(self, flow: QualifiedName) -> bool:
        """Whether a flow is part of the last update; a newly declared flow is only in the next one."""
        last = self.record(flow).last
        return str(flow) in self._flows if last is None else last.origin.update_id == self._update_id

    def apply(self, event: Event) -> None:
        """Take an event; one of another type has no effect."""
        if event.event_type in _UPDATES:
            self._apply_update(event)
        elif event.origin.flow_name is None:
            return
        elif event.event_type is EventType.FLOW_DEFINITION and event.origin.update_id == self._update_id:
            self._flows.add(event.origin.flow_name)
        elif event.event_type is EventType.FLOW_PROGRESS:
            self._apply_flow(event.origin.flow_name, event)

    def _apply_update(self, event: Event) -> None:
        if event.origin.update_id != self._update_id:
            self._update_id, self._flows, self.is_continuous = event.origin.update_id, set(), False
            self._state = ""
        details = event.details.get(event.event_type.value, {})
        if event.event_type is EventType.CREATE_UPDATE:
            self.is_continuous = bool(details.get("continuous"))
        else:
            self._state = str(details.get("state", ""))

    def _apply_flow(self, flow: str, event: Event) -> None:
        before, backlog = self._records.get(flow, FlowRecord()), _backlog(_details(event).get("metrics", {}))
        error = event.error.exceptions[0].message if event.error and event.error.exceptions else ""
        found = replace(before, last=event, error=error)
        self._records[flow] = found if backlog is None else replace(found, backlog=backlog)


def _details(event: Event) -> Mapping[str, Any]:
    found: Mapping[str, Any] = event.details.get(EventType.FLOW_PROGRESS.value, {})
    return found


def _backlog(metrics: Mapping[str, Any]) -> Lag | None:
    names = ("backlog_records", "backlog_bytes", "backlog_seconds")
    records, size, seconds = (metrics.get(name) for name in names)
    if records is None and size is None and seconds is None:
        return None
    return Lag(records=records, bytes=size, seconds=seconds)
