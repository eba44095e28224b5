"""Reads the event log back without Spark: all of it, the last events, or what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.storage_port import FileStatus, Storage
from framework.record.events import Event, EventLevel, EventType, parse_event
from framework.record.log import EVENTS_FOLDER

_POLL_SECONDS = 0.5

EventFilter = Callable[[Event], bool]


def event_filter(
    *,
    type: EventType | str | None = None,
    level: EventLevel | str | None = None,
    dataset: str | None = None,
    update_id: str | None = None,
) -> EventFilter:
    """A test for events; None lets all through.

    Args:
        type: that type only.
        level: that level and louder ones: METRICS, INFO, WARN, ERROR.
        dataset: that dataset only, by its full name or the end of it after a dot.
        update_id: that update only.
    """
    lowest = EventLevel(level).rank if level else 0

    def matches(event: Event) -> bool:
        name = event.origin.dataset_name or ""
        return (
            (type is None or event.event_type == type)
            and event.level.rank >= lowest
            and (dataset is None or name == dataset or name.endswith(f".{dataset}"))
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
    """The events that match, oldest first; the newest `last` of them when it is given."""
    matches = event_filter(type=type, level=level, dataset=dataset, update_id=update_id)
    found: dict[str, Event] = {}
    # Newest files first: updates of a pipeline follow each other, so the last events are in the last files.
    for file in sorted(_event_files(storage), key=lambda file: (file.modified_at, file.name), reverse=True):
        if last is not None and len(found) >= last:
            break
        found.update((event.id, event) for event in _events_of(storage, file) if matches(event))
    ordered = sorted(found.values(), key=_age)
    return ordered if last is None else ordered[max(len(ordered) - last, 0) :]


def follow_events(
    storage: Storage, *, matches: EventFilter | None = None, clock: Clock | None = None, from_start: bool = False
) -> Iterator[Event]:
    """Events as they are written, without end; those that are there already only `from_start`."""
    waiting = clock or SystemClock()
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    first = True
    while True:
        fresh = []
        for file in _event_files(storage):
            if sizes.get(file.name) != file.size:
                sizes[file.name] = file.size
                fresh += [event for event in _events_of(storage, file) if event.id not in seen]
        seen.update(event.id for event in fresh)
        if from_start or not first:
            yield from (event for event in sorted(fresh, key=_age) if matches is None or matches(event))
        first = False
        waiting.sleep(_POLL_SECONDS)


def _event_files(storage: Storage) -> list[FileStatus]:
    files = storage.list_files(storage.path(EVENTS_FOLDER))
    return [file for file in files if file.name.endswith(".jsonl")]


def _events_of(storage: Storage, file: FileStatus) -> Iterator[Event]:
    text = storage.read_text(storage.path(EVENTS_FOLDER, file.name)) or ""
    # Only "\n" ends a line: the texts in the events may hold other line ends.
    for line in text.split("\n"):
        event = parse_event(line)
        if event is not None:
            yield event


def _age(event: Event) -> tuple[str, str, int]:
    return event.timestamp, event.origin.update_id, event.sequence
