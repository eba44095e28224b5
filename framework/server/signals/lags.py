"""How far the flows of the served pipelines are behind: measured without Spark, for whoever looks at it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.foundation.clock import timestamp_text
from framework.foundation.errors import SluiceError
from framework.foundation.files.read_once import ReadOnceStorage
from framework.graph.stored_graph import GraphStore
from framework.record.events import Event, EventType
from framework.record.pages import EventPages
from framework.recovery.flow_journal import LAST_EVENTS, FlowJournal
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.recovery.flow_lags import StoredSources, flows_with_lag, lags_of
from framework.run.tables.quarantine_place import has_quarantine
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.stream import HOME
from framework.views.lag import lag_json

FRESH_SECONDS = 2.0
"""A measurement of this age is good enough for a request."""
_LOOKED_AT_SECONDS = 15.0
_WANTED_SECONDS = 60.0
_SEEDED = (EventType.CREATE_UPDATE, EventType.UPDATE_PROGRESS, EventType.FLOW_DEFINITION, EventType.FLOW_PROGRESS)
_WORST = (
    FlowHealth.STUCK, FlowHealth.FAILED, FlowHealth.BEHIND, FlowHealth.UNKNOWN, FlowHealth.RUNNING,
    FlowHealth.NOT_STARTED, FlowHealth.IDLE, FlowHealth.DONE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The lag of all flows of a pipeline at a time."""

    at: datetime
    monotonic: float
    flows: tuple[FlowLag, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values; null is unknown, never 0."""
        return {"read_at": timestamp_text(self.at), "flows": lag_json(self.flows)}

    def summary(self) -> dict[str, Any] | None:
        """Return what the row of a pipeline shows; None without flows that have a lag."""
        if not self.flows:
            return None
        known = [each for each in self.flows if each.health is not FlowHealth.DONE]
        return {
            "health": min((each.health for each in self.flows), key=_WORST.index).value,
            "seconds": max(map(float, seconds)) if (seconds := _all(each.lag.seconds for each in known)) else None,
            "records": sum(records) if (records := _all(each.lag.records for each in known)) else None,
            "bytes": sum(sizes) if (sizes := _all(each.lag.bytes for each in known)) else None,
            "flows": len(self.flows),
        }


class Lags:
    """Measures pipelines while somebody looks at them; a part of the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._journals: dict[str, FlowJournal] = {}
        self._measured: dict[str, Measured] = {}
        self._wanted: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._measuring: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._thread: threading.Thread | None = None
        self.faults: dict[str, SluiceError] = {}
        """Why a pipeline can't be measured, by its id."""

    def on_event(self, entry: PipelineEntry, event: Event) -> None:
        """Keep what an event says about its flow, if the pipeline was ever measured."""
        with self._lock:
            journal = self._journals.get(entry.pipeline_id)
            if journal is not None:
                journal.apply(event)

    def look(self) -> None:
        """Measure in a thread of its own what somebody looks at."""
        due = [entry for entry in self._server.pipelines() if self._is_due(entry)]
        if due and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._measure_all, args=(due,), name="sluice-lags", daemon=True)
            self._thread.start()

    def row_fields(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return the lag as last measured, and the number of quarantined rows if it is known to be 0."""
        found = self.want(entry, _LOOKED_AT_SECONDS)
        is_empty = self._server.reader(entry).state.fault is None and not has_quarantine(entry.storage)
        return {"lag": None if found is None else found.summary(), "quarantine_rows": 0 if is_empty else None}

    def want(self, entry: PipelineEntry, seconds: float) -> Measured | None:
        """Have a pipeline measured soon and, for a minute, again after some seconds; return the last measurement."""
        now = self._server.clock.monotonic()
        until, often = self._wanted.get(entry.pipeline_id, (now, seconds))
        self._wanted[entry.pipeline_id] = (now + _WANTED_SECONDS, min(often, seconds) if until > now else seconds)
        return self._measured.get(entry.pipeline_id)

    def of(self, entry: PipelineEntry, seconds: float = FRESH_SECONDS) -> Measured:
        """Return the lag of a pipeline, measured now unless the last measurement is younger than some seconds.

        Raises:
            SluiceError: the stored graph or the manifest of a flow can't be read.
        """
        with self._measuring[entry.pipeline_id]:
            found = self._measured.get(entry.pipeline_id)
            if found is None or not 0 <= self._server.clock.monotonic() - found.monotonic < seconds:
                found = self._measured[entry.pipeline_id] = self._measure(entry)
            return found

    def _is_due(self, entry: PipelineEntry) -> bool:
        now = self._server.clock.monotonic()
        until, often = self._wanted.get(entry.pipeline_id, (0.0, _LOOKED_AT_SECONDS))
        if until <= now and not self._server.hub.streams:
            return False
        found = self._measured.get(entry.pipeline_id)
        return found is None or not 0 <= now - found.monotonic < often

    def _measure_all(self, entries: Sequence[PipelineEntry]) -> None:
        for entry in entries:
            before = self._measured.get(entry.pipeline_id)
            try:
                found = self.of(entry)
            except SluiceError as error:
                self.faults[entry.pipeline_id] = error
                continue
            self.faults.pop(entry.pipeline_id, None)
            if before is None or before.flows != found.flows:
                here = entry.pipeline_id
                self._server.hub.publish([here], "lag", {"pipeline_id": here, **found.to_json()})
            if before is None or before.summary() != found.summary():
                row = self._server.row(entry).to_json()
                self._server.hub.publish([HOME, entry.pipeline_id], "pipeline", row)

    def _measure(self, entry: PipelineEntry) -> Measured:
        clock, stored = self._server.clock, GraphStore(entry.storage, entry.name).read()
        flows: tuple[FlowLag, ...] = ()
        if stored is not None:
            storage = ReadOnceStorage(entry.storage)
            runs = self._server.reader(entry).holder is not None
            with self._lock:
                journal = self._journal(entry).copy()  # listings of folders must not hold up the events
            found = lags_of(flows_with_lag(stored.graph), StoredSources(stored, storage), journal, clock, runs=runs)
            flows = tuple(found)
        return Measured(at=clock.now(), monotonic=clock.monotonic(), flows=flows)

    def _journal(self, entry: PipelineEntry) -> FlowJournal:
        found = self._journals.get(entry.pipeline_id)
        if found is None:
            found, pages = FlowJournal(), EventPages(entry.storage, self._server.settings.cache)
            events = [event for type_ in _SEEDED for event in pages.page(limit=LAST_EVENTS, type=type_).events]
            for event in sorted(events, key=lambda each: (each.timestamp, each.origin.update_id, each.sequence)):
                if event.origin.pipeline_name == entry.name:
                    found.apply(event)
            self._journals[entry.pipeline_id] = found
        return found


def _all(values: Iterator[Any]) -> list[Any] | None:
    """Return values; None if one of them is unknown, or if there are none."""
    found = list(values)
    return None if not found or None in found else found


def lags_by_flow(measured: Measured | None) -> Mapping[str, FlowLag]:
    """Return the lags by the full names of the flows."""
    return {str(each.flow): each for each in (measured.flows if measured is not None else ())}
