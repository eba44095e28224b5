"""Queries of the event log, and their results as a table, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from framework.foundation.clock import Clock
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.nearest import meant_names, plain_name, qualified_hint
from framework.foundation.wording import printable
from framework.record.events import Event, EventLevel
from framework.record.pages import EMPTY_LOG, EventPages
from framework.record.reader import event_files, event_filter, follow_events, read_events
from framework.views.table import Cell, Column, Table, Tone

_COLUMNS = (
    Column(name="time", wraps=False),
    Column(name="level", wraps=False),
    Column(name="type", wraps=False),
    Column(name="message"),
)
_TONES = {EventLevel.ERROR: Tone.BAD, EventLevel.WARN: Tone.WARNING, EventLevel.METRICS: Tone.QUIET}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Conditions on events; None for no restriction.

    Args:
        level: the lowest level, in any case.
        dataset: the full name of a dataset, or its last parts.
        last: the maximum number of events; the newest ones are returned.
        before: the id of an event; only older events are returned.
    """

    type: str | None = None
    level: str | None = None
    dataset: str | None = None
    last: int | None = None
    before: str | None = None

    def read(self, storage: Storage, cache: Path) -> list[Event]:
        """Return the matching events of the log, oldest first.

        Args:
            storage: the storage with the log.
            cache: the user's cache folder, with the index that `before` uses.

        Raises:
            UserError: EVENT_DATASET_NOT_FOUND if the log has no event about the dataset; EVENT_NOT_FOUND.
        """
        events = self._matching(storage) if self.before is None else self._earlier(storage, cache, self.before)
        if not events and self.dataset is not None:
            self._check_dataset(storage, self.dataset)
        return events

    def follow(self, storage: Storage, clock: Clock) -> Iterator[Event]:
        """Yield the newest `last` events of the log, then each new event, without end."""
        matches = event_filter(type=self.type, level=self._level, dataset=self._dataset)
        yield from follow_events(storage, matches=matches, clock=clock, existing=self.last or 0)

    @property
    def _level(self) -> str | None:
        return None if self.level is None else self.level.upper()

    @property
    def _dataset(self) -> str | None:
        return None if self.dataset is None else plain_name(self.dataset)

    def _matching(self, storage: Storage) -> list[Event]:
        return read_events(storage, type=self.type, level=self._level, dataset=self._dataset, last=self.last)

    def _earlier(self, storage: Storage, cache: Path, before: str) -> list[Event]:
        page = EventPages(storage, cache).page(
            before, limit=self.last, type=self.type, level=self._level, dataset=self._dataset
        )
        return [*page.events]

    def _check_dataset(self, storage: Storage, dataset: str) -> None:
        known = {name for event in read_events(storage) if (name := event.origin.dataset_name)}
        if not meant_names(dataset, known):
            hint = qualified_hint(dataset, known) if event_files(storage) else EMPTY_LOG
            raise UserError("EVENT_DATASET_NOT_FOUND", dataset=dataset, hint=hint)


def events_table(events: Sequence[Event]) -> Table:
    """Return one row for each event: local time, level, type and message."""
    return Table.of(_COLUMNS, [_row(event) for event in events])


def events_json(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the events as JSON values, with the field names of the event log."""
    return [event.to_row() for event in events]


def event_line(event: Event) -> str:
    """Return one event as a line, aligned with the lines of other events."""
    time, level, type_, message = (cell.text for cell in _row(event))
    return f"{time}  {level:<7}  {type_:<20}  {printable(message)}"


def _row(event: Event) -> tuple[Cell, ...]:
    local = f"{datetime.fromisoformat(event.timestamp).astimezone():%Y-%m-%d %H:%M:%S}"
    return (
        Cell(text=local),
        Cell(text=event.level.value, tone=_TONES.get(event.level)),
        Cell(text=event.event_type.value),
        Cell(text=event.message),
    )
