"""Continuous updates that were lost start again: their process was killed, or their machine failed.

When an update starts again follows from the run records alone, so a server that is killed forgets nothing. The id of
the new update follows from the lost one, so two servers, or one that asks twice, start it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from framework.foundation.clock import timestamp_text
from framework.foundation.errors import SluiceError
from framework.record.events import Event
from framework.run.update.control.stop_requests import StopRequests
from framework.server.engines.following import GIVEN_UP
from framework.server.engines.run_records import RunRecord
from framework.server.engines.start_request import StartRequest
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server

FIRST_SECONDS, LONGEST_SECONDS = 10.0, 300.0
STEADY_SECONDS = 600.0
"""An update that ran for so long starts again as after the first loss."""
_LOOK_SECONDS = 1.0
_REBUILDS = ("full_refresh", "full_refresh_selection", "reset_checkpoint_selection")


def restart_at(records: Sequence[RunRecord], *, is_continuous: bool) -> tuple[RunRecord, datetime] | None:
    """Return the lost run that starts again, and when; None if the newest run is none.

    The first start is 10 seconds after the loss; each further one that is lost soon doubles that, up to five minutes.
    A run that rebuilds tables does not start again: it may have done so, and nobody asked for it twice. Runs of a
    schedule have the retries of the schedule.

    Args:
        records: the runs of one pipeline, in the order of their requests.
        is_continuous: whether the spec makes its updates continuous.
    """
    updates = [each for each in records if not each.body.get("validate_only")]
    last = updates[-1] if updates else None
    if last is None or last.outcome != "LOST" or last.ended_at is None:
        return None
    ours = last.body.get("sluice") or {}
    if not (is_continuous or ours.get("continuous")) or any(last.body.get(each) for each in _REBUILDS):
        return None
    attempts = [each for each in updates if each.request_id == last.request_id]
    if any(each.cause == "JOB_TASK" or (each.user or "").startswith("schedule ") for each in attempts):
        return None
    losses = 0
    for each in reversed(attempts):
        if each.outcome != "LOST":
            break
        losses += 1
        if _is_steady(each):
            break
    seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(losses - 1, 10))
    return last, datetime.fromisoformat(last.ended_at) + timedelta(seconds=seconds)


def _is_steady(record: RunRecord) -> bool:
    if record.started_at is None or record.ended_at is None:
        return False
    ran = datetime.fromisoformat(record.ended_at) - datetime.fromisoformat(record.started_at)
    return ran.total_seconds() >= STEADY_SECONDS


class Restarts:
    """Starts lost continuous updates again; a part of the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._looked: float | None = None
        self.faults: dict[str, SluiceError] = {}
        """Why an update can't start again now, by the id of its pipeline."""

    def on_event(self, entry: PipelineEntry, event: Event) -> None:
        """Take no notice of events: the run records have what counts."""

    def look(self) -> None:
        """Start what is due."""
        now = self._server.clock.monotonic()
        if self._looked is not None and 0 <= now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        for entry in self._server.pipelines():
            self.faults.pop(entry.pipeline_id, None)
            try:
                self._look_at(entry)
            except SluiceError as error:  # the next look tries again
                self.faults[entry.pipeline_id] = error

    def row_fields(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return when a lost update starts again; None if it does not."""
        due = self._due(entry)
        return {"restart_at": None if due is None else timestamp_text(due[1])}

    def _due(self, entry: PipelineEntry) -> tuple[RunRecord, datetime] | None:
        """Return what `restart_at` says, unless something has happened since the loss."""
        reader = self._server.reader(entry)
        found = restart_at(reader.runs, is_continuous=entry.spec.continuous)
        if found is None or entry.gone is not None or reader.holder is not None:
            return None
        lost = found[0]
        later = (row for row in reader.rows if (row.created_at or "") > (lost.ended_at or ""))
        if any(row.options.kind != "VALIDATE" for row in later):
            return None
        asked = StopRequests(entry.storage).of(lost.update_id)
        return found if asked is None or asked.reason == GIVEN_UP else None

    def _look_at(self, entry: PipelineEntry) -> None:
        due = self._due(entry)
        if due is None or self._server.clock.now() < due[1] or not self._server.starter.serves(entry):
            return
        lost = due[0]
        request = StartRequest(
            body={name: value for name, value in lost.body.items() if name != "cause"}, user=lost.user,
            request_id=lost.request_id, attempt=lost.attempt + 1, cause="RETRY_ON_FAILURE",
            key=f"after the loss of {lost.update_id}",
        )  # fmt: skip
        self._server.starter.request(entry, request)
