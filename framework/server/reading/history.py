"""The updates of a pipeline, folded from the events of its log and from its run records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.record.events import Event, EventLevel, EventType
from framework.record.pages import EventPages
from framework.server.engines.run_records import RunRecord, RunState
from framework.server.pipelines import PipelineEntry
from framework.server.values import ENDED, UpdateOptions, UpdateRow

_MOST_UPDATES = 1_000
_EVENTS_PER_UPDATE = 8
_LONGEST_ERROR = 2_000
_OF_UPDATES = frozenset({EventType.CREATE_UPDATE, EventType.UPDATE_PROGRESS})
_SELECTIONS = ("refresh_selection", "full_refresh_selection", "reset_checkpoint_selection")
_LOST = "Its process ended without a word: it was killed, or its machine failed."


class UpdateHistory:
    """The last thousand updates of a pipeline.

    Args:
        entry: the pipeline.
    """

    def __init__(self, entry: PipelineEntry) -> None:
        self._entry = entry
        self._rows: dict[str, UpdateRow] = {}
        self._records: dict[str, RunRecord] = {}

    def load(self, cache: Path) -> None:
        """Read the updates of the log by the index in the user's cache."""
        pages, most = EventPages(self._entry.storage, cache), _MOST_UPDATES
        for event in pages.page(limit=most, type=EventType.CREATE_UPDATE).events:
            self.apply(event)
        known = set(self._rows)
        progress = pages.page(limit=most * _EVENTS_PER_UPDATE, type=EventType.UPDATE_PROGRESS).events
        errors = pages.page(limit=most, level=EventLevel.ERROR).events
        for event in (*progress, *errors):
            if event.origin.update_id in known:
                self.apply(event)

    def apply(self, event: Event) -> None:
        """Apply an event to the row of its update."""
        if event.origin.pipeline_name != self._entry.name:
            return  # several pipelines may share a storage
        update_id = event.origin.update_id
        before = self._rows.get(update_id)
        if before is None and event.event_type not in _OF_UPDATES:
            return  # a command has written what a user did, in a log of its own
        self._rows[update_id] = _after(before or self._new(event), event)
        if len(self._rows) > 2 * _MOST_UPDATES:
            self._rows = dict([*self._rows.items()][-_MOST_UPDATES:])

    def take(self, records: Iterable[RunRecord]) -> None:
        """Replace the run records."""
        self._records = {each.update_id: each for each in records if each.pipeline == self._entry.name}

    @property
    def records(self) -> Mapping[str, RunRecord]:
        """The run records by update, in the order in which they were accepted."""
        return self._records

    def rows(self, running: frozenset[str]) -> tuple[UpdateRow, ...]:
        """Return the updates, oldest first.

        Args:
            running: the updates whose process lives; another one without an end is LOST.
        """
        rows = {**self._rows}
        for record in self._records.values():
            if record.update_id not in rows:
                rows[record.update_id] = _of_record(record, self._entry.pipeline_id)
        found = [self._settled(self._merged(row), running) for row in rows.values()]
        return tuple(sorted(found, key=lambda row: (row.created_at or "", row.update_id)))

    def _settled(self, row: UpdateRow, running: frozenset[str]) -> UpdateRow:
        """Return the row of an update with the end that its process has left.

        A run with an open record is settled by the server that starts the updates of the storage, which reads the end
        that the events have, or the output. Until then it is not LOST: its end may only not be read yet.
        """
        record = self._records.get(row.update_id)
        if row.state in ENDED or row.update_id in running or (record is not None and record.is_open):
            return row
        state = "LOST" if record is None else record.outcome or "LOST"
        error = row.error or (record and record.error) or (_LOST if state == "LOST" else None)
        return replace(row, state=state, error=error)

    def _merged(self, row: UpdateRow) -> UpdateRow:
        """Return the row with what the server knows about the run: who asked, when, and its output."""
        record = self._records.get(row.update_id)
        if record is None:
            return row
        return replace(
            row, started_by="server", log=record.started_at is not None, user=record.user or row.user,
            created_at=record.accepted_at or row.created_at,
            ended_at=row.ended_at or record.ended_at, error=row.error or record.error,
        )  # fmt: skip

    def _new(self, event: Event) -> UpdateRow:
        host, _, pid = (event.origin.host or "").rpartition(":")
        return UpdateRow(
            update_id=event.origin.update_id,
            request_id=event.origin.update_id,
            pipeline_id=self._entry.pipeline_id,
            host=host or None,
            pid=int(pid) if pid.isdecimal() else None,
            created_at=event.timestamp,
        )


def _of_record(record: RunRecord, pipeline_id: str) -> UpdateRow:
    """Return the row of a run without events."""
    states = {RunState.ACCEPTED: "WAITING_FOR_RESOURCES", RunState.ENDED: record.outcome or "LOST"}
    return UpdateRow(
        update_id=record.update_id, request_id=record.request_id, pipeline_id=pipeline_id, attempt=record.attempt,
        state=states.get(record.state, "CREATED"), cause=record.cause, user=record.user, host=record.host,
        pid=record.pid, created_at=record.accepted_at, ended_at=record.ended_at, options=_options(record.body),
    )  # fmt: skip


def _options(values: Mapping[str, Any]) -> UpdateOptions:
    selections = {name: tuple(values.get(name) or ()) for name in _SELECTIONS}
    ours = values.get("sluice") or values  # of a request; events have all fields at one level
    return UpdateOptions(
        **selections, full_refresh=bool(values.get("full_refresh")), continuous=bool(ours.get("continuous")),
        validate_only=bool(values.get("validate_only")),
    )  # fmt: skip


def _after(row: UpdateRow, event: Event) -> UpdateRow:
    details: Mapping[str, Any] = event.details.get(event.event_type.value, {})
    if event.event_type is EventType.CREATE_UPDATE:
        return replace(
            row, request_id=details.get("request_id") or row.update_id, attempt=details.get("attempt", 1),
            cause=details.get("cause", row.cause), user=details.get("user_name"), created_at=event.timestamp,
            options=_options(details),
        )  # fmt: skip
    if event.event_type is EventType.UPDATE_PROGRESS and row.state not in ENDED:
        state = str(details.get("state", row.state))
        ended = event.timestamp if state in ENDED else None
        row = replace(row, state=state, ended_at=ended)
    if event.error is not None and event.level is EventLevel.ERROR and row.error is None:
        row = replace(row, error=_error_text(event))
    return row


def _error_text(event: Event) -> str:
    """Return the first exception of an event as one text."""
    exceptions = event.error.exceptions if event.error is not None else ()
    text = exceptions[0].message if exceptions else event.message
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"
