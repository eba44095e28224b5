"""Readers of the event log without Spark: all events, the newest events, or new events as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from operator import itemgetter

from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.files.storage_port import FileStatus, Storage
from framework.foundation.nearest import is_named
from framework.record.events import Event, EventLevel, EventType, parse_event
from framework.record.log import EVENTS_FOLDER, logged_updates

_POLL_SECONDS = 0.5
_MOST_REPEATED = 20_000
"""The window for repeated events: a line that was written twice after a fault follows its first copy soon."""

EventFilter = Callable[[Event], bool]
_Age = tuple[str, float, str, str, int]


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
    files = [file for file in event_files(storage) if update_id is None or update_id in logged_updates([file.name])]
    # Newest files first: a pipeline's updates run one after the other, so the last events are in the last files.
    for file in sorted(files, key=lambda file: (file.modified_at, file.name), reverse=True):
        if last is not None and len(found) >= last:
            break
        found.update((event.id, (_age(event, file), event)) for event in _events_of(storage, file) if matches(event))
    ordered = [event for _, event in sorted(found.values(), key=itemgetter(0))]
    return ordered if last is None else ordered[max(len(ordered) - last, 0) :]


def newest_events(storage: Storage, type: EventType) -> Iterator[Event]:
    """Yield the events of a type, newest first; a file is read only when its first event is needed.

    The updates of a pipeline run one after the other, so the files are in the order of their events.
    """
    for file in sorted(event_files(storage), key=lambda file: (file.modified_at, file.name), reverse=True):
        text = storage.read_text(file_path(storage, file.name)) or ""
        for line in reversed(text.split("\n")):
            event = parse_event(line) if type in line else None
            if event is not None and event.event_type is type:
                yield event


def follow_events(
    storage: Storage, *, matches: EventFilter | None = None, clock: Clock | None = None, existing: int | None = 0
) -> Iterator[Event]:
    """Yield events endlessly as they are written; each line of the log is read once.

    Args:
        storage: the storage with the log.
        matches: a predicate for the wanted events; None for all.
        clock: waits for the next events.
        existing: how many of the existing events, the newest ones, to yield first; None for all.
    """
    waiting = clock or SystemClock()
    positions: dict[str, int] = {}
    seen: dict[str, None] = {}
    first = True
    while True:
        fresh: dict[str, tuple[_Age, Event]] = {}
        files = event_files(storage)
        for file in files:
            events, positions[file.name] = _events_after(storage, file, positions.get(file.name, 0))
            fresh.update((event.id, (_age(event, file), event)) for event in events if event.id not in seen)
        positions = {file.name: positions[file.name] for file in files}  # old files are deleted meanwhile
        seen.update(dict.fromkeys(fresh))
        if len(seen) > 2 * _MOST_REPEATED:
            seen = dict.fromkeys([*seen][-_MOST_REPEATED:])
        ordered = [event for _, event in sorted(fresh.values(), key=itemgetter(0))]
        wanted = [event for event in ordered if matches is None or matches(event)]
        yield from wanted[len(wanted) - min(existing, len(wanted)) :] if first and existing is not None else wanted
        first = False
        waiting.sleep(_POLL_SECONDS)


def longest_update_seconds(storage: Storage, *, last: int = 5) -> float | None:
    """Return the longest duration of the last updates, from first to last event; None if there are none."""
    files = sorted(event_files(storage), key=lambda file: (file.modified_at, file.name), reverse=True)
    times: dict[str, list[datetime]] = {}
    for file in files[:last]:
        for event in _events_of(storage, file):
            times.setdefault(event.origin.update_id, []).append(datetime.fromisoformat(event.timestamp))
    return max(((max(each) - min(each)).total_seconds() for each in times.values()), default=None)


def event_files(storage: Storage) -> list[FileStatus]:
    """Return the files of the event log."""
    files = storage.list_files(storage.path(EVENTS_FOLDER))
    return [file for file in files if file.name.endswith(".jsonl")]


def _events_of(storage: Storage, file: FileStatus) -> Iterator[Event]:
    text = storage.read_text(file_path(storage, file.name)) or ""
    # Only "\n" ends a line: event texts may contain other line separators.
    for line in text.split("\n"):
        event = parse_event(line)
        if event is not None:
            yield event


def _events_after(storage: Storage, file: FileStatus, position: int) -> tuple[list[Event], int]:
    """Return the events after a byte position in a file, and the position after the last complete line."""
    if file.size < position:  # another file has the name now
        position = 0
    if file.size == position:
        return [], position
    lines, newline, _ = storage.read_after(file_path(storage, file.name), position).rpartition(b"\n")
    events = map(parse_event, lines.decode(errors="replace").split("\n"))
    return [event for event in events if event is not None], position + len(lines) + len(newline)


def _age(event: Event, file: FileStatus) -> _Age:
    return (*place_of(event.timestamp, file.modified_at), event.timestamp, event.origin.update_id, event.sequence)


def place_of(timestamp: str, modified_at: float) -> tuple[str, float]:
    """Return an event's place in the log's order by its file; events with the same place are ordered by their own time.

    An event is never placed later than its file's time, which each update corrects. At the same moment, events that
    were moved back come first: an update that starts when it corrects the times comes after them.

    A file's last events may be some milliseconds later than the file, because the time of a file is that of the last
    tick of the kernel's clock. So the events of the file's own millisecond are placed like the later ones: those of one
    file then keep the order of their times. A tolerance would not do: of a corrected file, it would leave some events
    at their own times, among or after those of the next update.

    Args:
        timestamp: the time of the event.
        modified_at: the time of its file.
    """
    written = written_at(modified_at)
    return (timestamp, inf) if timestamp < written else (written, modified_at)


@lru_cache(maxsize=64)
def written_at(modified_at: float) -> str:
    """Return a file's time in the format of event timestamps."""
    return timestamp_text(datetime.fromtimestamp(modified_at, tz=UTC))


def file_path(storage: Storage, name: str) -> str:
    """Return the path of a file of the event log."""
    return storage.path(EVENTS_FOLDER, name)
