"""The schedules of the served pipelines: looked at every second, started by the server's starter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.foundation.clock import timestamp_text
from framework.foundation.errors import SluiceError
from framework.operations.scheduling.due import Start, Stop, update_id_of
from framework.operations.scheduling.listing import ScheduleRow, list_schedules
from framework.operations.scheduling.schedule import Overlap, Schedule
from framework.operations.scheduling.schedule_file import read_schedules, schedule_file
from framework.operations.scheduling.source_watch import watch_sources
from framework.operations.scheduling.state import ScheduleStore
from framework.operations.scheduling.ticking import Report, ScheduleTicker
from framework.record.events import Event
from framework.server.engines.start_request import StartRequest
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.signals.files import FileTimes
from framework.server.stream import HOME

_LOOK_SECONDS = 1.0
_SOURCES_SECONDS = 5.0
"""The least time between two looks at the sources of a pipeline, which list folders."""


class EntryEngines:
    """The updates of one pipeline, as its schedules see and start them."""

    def __init__(self, server: Server, entry: PipelineEntry) -> None:
        self._server = server
        self._entry = entry

    def run_state(self, update_id: str) -> str | None:
        """Return the state of an update; None if it is unknown."""
        row = self._server.reader(self._entry).row(update_id)
        return None if row is None else row.state

    def is_busy(self, own: str | None) -> bool:
        """Return whether an update other than `own` runs or waits, whoever started it."""
        reader = self._server.reader(self._entry)
        holder = reader.holder
        if holder is not None and holder.update_id != own:
            return True
        return any(not each.has_ended and each.update_id != own for each in reader.rows)

    def start(self, start: Start, schedule: Schedule) -> None:
        """Start the update of a run; a repeated start is accepted once, because its key determines its id.

        Raises:
            UserError: it can never start.
            OperationError: it can't start now.
        """
        entry = self._entry
        request = StartRequest(
            body=selections(schedule), user=f"schedule {schedule.name}",
            request_id=update_id_of(entry.pipeline_id, start.request_key), attempt=start.attempt,
            cause="JOB_TASK" if start.attempt == 1 else "RETRY_ON_FAILURE", key=start.key,
            queue=schedule.on_data or schedule.overlap is Overlap.QUEUE,
        )  # fmt: skip
        self._server.starter.request(entry, request)

    def stop(self, stop: Stop) -> None:
        """Ask an update to stop."""
        self._server.starter.stop(self._entry, update_id=stop.update_id, reason=stop.reason)


class Schedules:
    """Looks at all schedules; a part of the server.

    Only the server that starts the updates of a storage looks at its schedules, so two servers never decide the same
    time. What it remembers is a cache: the decisions are in the storages.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._files = FileTimes(schedule_file, read_schedules)
        self._tokens: dict[str, tuple[float, Mapping[str, str] | None]] = {}
        self._looked: float | None = None
        self.faults: dict[str, SluiceError] = {}
        """Why no schedule of a pipeline can run now, by its id."""

    def on_event(self, entry: PipelineEntry, event: Event) -> None:
        """Take no notice of events: the outcome of a run is that of its update."""

    def look(self) -> None:
        """Start what is due."""
        now = self._server.clock.monotonic()
        if self._looked is not None and 0 <= now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        for entry in self._server.pipelines():
            try:
                self._look_at(entry)
            except SluiceError as error:  # its storage, or its file of schedules: the others go on
                self.faults[entry.pipeline_id] = error

    def row_fields(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return the next run of a pipeline; None without a schedule that has times and is not paused."""
        times = [row.next_times[0] for row in self.rows(entry) if row.next_times]
        return {"next_run": timestamp_text(min(times)) if times else None, "parked": None}

    def rows(self, entry: PipelineEntry) -> tuple[ScheduleRow, ...]:
        """Return the schedules of a pipeline; none if they can't be read."""
        try:
            if not self._files.read(entry.pipeline_id, entry.spec):
                return ()
            return list_schedules(entry.spec, entry.storage, self._server.clock)
        except SluiceError as error:
            self.faults[entry.pipeline_id] = error
            return ()

    def _look_at(self, entry: PipelineEntry) -> None:
        schedules = self._files.read(entry.pipeline_id, entry.spec)
        held: Mapping[str, SluiceError] = {}
        if schedules and self._server.starter.serves(entry):
            ticker = ScheduleTicker(
                pipeline_id=entry.pipeline_id, store=ScheduleStore(entry.storage, entry.name),
                engines=EntryEngines(self._server, entry), clock=self._server.clock,
                tokens=lambda known: self._sources(entry, known),
            )  # fmt: skip
            for report in ticker.tick(schedules):
                self._publish(entry, report)
            held = ticker.held
        self.faults.pop(entry.pipeline_id, None)
        for error in held.values():
            self.faults[entry.pipeline_id] = error

    def _sources(self, entry: PipelineEntry, known: Mapping[str, str]) -> Mapping[str, str] | None:
        now = self._server.clock.monotonic()
        looked, tokens = self._tokens.get(entry.pipeline_id, (None, None))
        if looked is None or not 0 <= now - looked < _SOURCES_SECONDS:
            tokens = watch_sources(entry.storage, entry.name, known).tokens
            self._tokens[entry.pipeline_id] = (now, tokens)
        return tokens

    def _publish(self, entry: PipelineEntry, report: Report) -> None:
        note = report.note
        payload = {
            "pipeline_id": entry.pipeline_id, "schedule": schedule_id(entry, report.schedule.name), "kind": note.kind,
            "fire": timestamp_text(note.fire), "text": note.text,
        }  # fmt: skip
        self._server.hub.publish([HOME, entry.pipeline_id], "schedule", payload)


def schedule_id(entry: PipelineEntry, name: str) -> str:
    """Return the id of a schedule in paths: names are unique only within their pipeline."""
    return f"{entry.pipeline_id}.{name}"


def selections(schedule: Schedule) -> dict[str, Any]:
    """Return the fields of start_update for a run of a schedule."""
    fields = {"refresh_selection": schedule.refresh, "full_refresh_selection": schedule.full_refresh}
    return {name: list(names) for name, names in fields.items() if names}
