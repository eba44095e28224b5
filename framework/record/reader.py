"""Reads the event log without Spark: all events, the last ones, or new ones as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from operator import itemgetter

from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.nearest import is_named
from framework.foundation.storage_port import FileStatus, Storage
from framework.record.events import Event, EventLevel, EventType, parse_event
from framework.record.log import EVENTS_FOLDER

_POLL_SECONDS = 0.5

EventFilter = Callable[[Event], bool]
_Age = tuple[str, str, str, int]


def event_filter(
    *,
    type: EventType | str | None = None,
    level: EventLevel | str | None = None,
    dataset: str | None = None,
    update_id: str | None = None,
) -> EventFilter:
    """Return a predicate for events; None matches all.

    Args:
        type: only this type.
        level: only this level and higher ones: METRICS, INFO, WARN, ERROR.
        dataset: only this dataset, by its full name or its last parts.
        update_id: only this update.
    """
    lowest = EventLevel(level).rank if level else 0

    def matches(event: Event) -> bool:
        name = event.origin.dataset_name or ""
        return (
            (type is None or event.event_type == type)
            and event.level.rank >= lowest
            and (dataset is None or is_named(name, dataset))
            and (update_id is None or event.origin.update_id == update_id)
        )

    return matches


def read_events(
    storage: Storage,
    *,
    type: EventType | str | None = None,
    level: EventLevel | str | None = None,
    dataset: str | None = None,
    update_id: str | None = None,
    last: int | None = None,
) -> list[Event]:
    """Return the matching events, oldest first; with `last`, only the newest ones."""
    matches = event_filter(type=type, level=level, dataset=dataset, update_id=update_id)
    found: dict[str, tuple[_Age, Event]] = {}
    # Newest files first: updates of a pipeline run one after the other, so the last files have the last events.
    for file in sorted(_event_files(storage), key=lambda file: (file.modified_at, file.name), reverse=True):
        if last is not None and len(found) >= last:
            break
        found.update((event.id, (_age(event, file), event)) for event in _events_of(storage, file) if matches(event))
    ordered = [event for _, event in sorted(found.values(), key=itemgetter(0))]
    return ordered if last is None else ordered[max(len(ordered) - last, 0) :]


def newest_events(storage: Storage, type: EventType) -> Iterator[Event]:
    """Yield the events of a type, newest first; a file is read when its first event is asked for.

    The updates of a pipeline run one after the other, so the order of the files is that of their events.
    """
    for file in sorted(_event_files(storage), key=lambda file: (file.modified_at, file.name), reverse=True):
        text = storage.read_text(storage.path(EVENTS_FOLDER, file.name)) or ""
        for line in reversed(text.split("\n")):
            event = parse_event(line) if type in line else None
            if event is not None and event.event_type is type:
                yield event


def follow_events(
    storage: Storage, *, matches: EventFilter | None = None, clock: Clock | None = None, from_start: bool = False
) -> Iterator[Event]:
    """Yield events as they are written, without end; existing events only with `from_start`."""
    waiting = clock or SystemClock()
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    first = True
    while True:
        fresh: dict[str, tuple[_Age, Event]] = {}
        for file in _event_files(storage):
            if sizes.get(file.name) != file.size:
                sizes[file.name] = file.size
                found = (event for event in _events_of(storage, file) if event.id not in seen)
                fresh.update((event.id, (_age(event, file), event)) for event in found)
        seen.update(fresh)
        if from_start or not first:
            ordered = (event for _, event in sorted(fresh.values(), key=itemgetter(0)))
            yield from (event for event in ordered if matches is None or matches(event))
        first = False
        waiting.sleep(_POLL_SECONDS)


def longest_update_seconds(storage: Storage, *, last: int = 5) -> float | None:
    """Return the time from the first to the last event of the longest of the last updates; None if there are none."""
    files = sorted(_event_files(storage), key=lambda file: (file.modified_at, file.name), reverse=True)
    times: dict[str, list[datetime]] = {}
    for file in files[:last]:
        for event in _events_of(storage, file):
            times.setdefault(event.origin.update_id, []).append(datetime.fromisoformat(event.timestamp))
    return max(((max(each) - min(each)).total_seconds() for each in times.values()), default=None)


def _event_files(storage: Storage) -> list[FileStatus]:
    files = storage.list_files(storage.path(EVENTS_FOLDER))
    return [file for file in files if file.name.endswith(".jsonl")]


def _events_of(storage: Storage, file: FileStatus) -> Iterator[Event]:
    text = storage.read_text(storage.path(EVENTS_FOLDER, file.name)) or ""
    # Only "\n" ends a line: texts in events may contain other line separators.
    for line in text.split("\n"):
        event = parse_event(line)
        if event is not None:
            yield event


def _age(event: Event, file: FileStatus) -> _Age:
    """The place of an event in the order of all. It is not later than its file, whose time each update corrects."""
    written = timestamp_text(datetime.fromtimestamp(file.modified_at, tz=UTC))
    return min(event.timestamp, written), event.timestamp, event.origin.update_id, event.sequence
