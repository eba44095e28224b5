"""The event log of one update: accepts events without waiting, and writes them in its own thread."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.secrets.known_secrets import hide_known, hide_known_values
from framework.record.drafts import hook_progress
from framework.record.events import Event, EventDraft, EventError, EventLevel, EventType, Origin, summarize_error

Observer = Callable[[Event], None]

EVENTS_FOLDER = "events"
# Events must be durable within five seconds. A local append costs a millisecond. On storage where each write creates a
# file, fewer and larger writes are better.
_FLUSH_SECONDS = 0.5
_PART_SECONDS = 4.0
_MOST_PENDING = 10_000
# A continuous update writes events for weeks, so its files roll over and the oldest are deleted.
_PART_BYTES = 8_000_000
_MOST_PARTS = 16
_MOST_SMALL_PARTS = 2_000
# Each update adds files, so files of old updates are deleted, except the newest files of a pipeline that seldom runs.
# The files of all pipelines in a storage count together, because the name of a file does not contain the pipeline.
KEPT_DAYS = 30
KEPT_FILES = 1_000
_PART = re.compile(r"-\d{5}$")
_SKEW_SECONDS = 1.0  # between our clock and the clock of the file system


def claim_log(storage: Storage, update_id: str) -> bool:
    """Create the first file of an update's event log; return False if the id of the update is already in use."""
    names = storage.list_names(storage.path(EVENTS_FOLDER))
    if update_id in logged_updates(names):
        return False
    return storage.create_text(_part_path(storage, update_id, 0), "")


def logged_updates(names: Iterable[str]) -> frozenset[str]:
    """Return the updates whose event log has one of these files."""
    stems = (name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl"))
    return frozenset(_PART.sub("", stem) for stem in stems)


def delete_old_events(storage: Storage, now: datetime) -> None:
    """Delete event files that are older than 30 days and not among the newest thousand files of the storage.

    Before that, files with a time in the future get the present time. A crash anywhere is safe: the next update
    continues. A file that can't be deleted is kept.
    """
    _correct_times(storage, now)
    files = storage.list_files(storage.path(EVENTS_FOLDER))
    newest_first = sorted(files, key=lambda file: (file.modified_at, file.name), reverse=True)
    oldest = (now - timedelta(days=KEPT_DAYS)).timestamp()
    for file in newest_first[KEPT_FILES:]:
        if file.modified_at < oldest and file.name.endswith(".jsonl"):
            _delete_if_possible(storage, storage.path(EVENTS_FOLDER, file.name))


def _correct_times(storage: Storage, now: datetime) -> None:
    """Give event files with a time in the future the present time, oldest first: the clock has since been set back.

    Files are read in the order of their updates, so the next update's events must come after those in older files. A
    crash anywhere is safe: each file is rewritten with the same content, and the next update corrects the rest.
    """
    files = storage.list_files(storage.path(EVENTS_FOLDER))
    latest = now.timestamp() + _SKEW_SECONDS
    misdated = [file for file in files if file.modified_at > latest and file.name.endswith(".jsonl")]
    for file in sorted(misdated, key=lambda file: (file.modified_at, file.name)):
        path = storage.path(EVENTS_FOLDER, file.name)
        text = storage.read_text(path)
        if text is not None:
            storage.write_text(path, text)


def _delete_if_possible(storage: Storage, path: str) -> None:
    with suppress(OperationError):  # an undeletable old file must not fail an update
        storage.delete_tree(path)


class EventLog:
    """Writes an update's events as JSON lines below `<storage>/events/`.

    `emit` and `record` may be called from any thread. They pass the event to the observers and return without waiting
    for storage. Errors are written at once, all other events within the flush interval. A failed write is retried. Its
    error is raised only by `close`, or if ten thousand events are pending.

    Args:
        storage: the pipeline's storage.
        origin: the pipeline and update of the events.
        clock: the source of timestamps.
        flush_seconds: the maximum time until an event is written; None for the default of the storage.
    """

    def __init__(
        self, storage: Storage, origin: Origin, clock: Clock | None = None, *, flush_seconds: float | None = None
    ) -> None:
        self.origin = origin
        self._storage = storage
        self._clock = clock or SystemClock()
        self._flush_seconds = flush_seconds or (_FLUSH_SECONDS if storage.can_append else _PART_SECONDS)
        self._state = threading.Condition()
        self._pending: list[str] = []
        self._urgent = False
        self._closed = False
        self._failure: OperationError | None = None
        self._sequence = 0
        self._last_time = ""
        self._parts = 0
        self._part_bytes = 0
        self._observers: tuple[Observer, ...] = ()
        self._observing = threading.RLock()
        self._writer = threading.Thread(target=self._write_until_closed, name="sluice-event-log", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        """Return the log, which is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the pending events and close the log."""
        self.close()

    def subscribe(self, observer: Observer) -> None:
        """Pass each following event to `observer`, one at a time.

        The observer runs in the emitting thread, so it must be quick. An observer that raises is removed.
        """
        with self._observing:
            self._observers = (*self._observers, observer)

    def emit(
        self,
        event_type: EventType | str,
        message: str,
        *,
        level: EventLevel | str = EventLevel.INFO,
        dataset: str | None = None,
        flow: str | None = None,
        error: EventError | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Event:
        """Record an event from its parts; prefer `record` with a constructor of `drafts`."""
        return self.record(
            EventDraft(
                event_type=EventType(event_type),
                message=message,
                level=EventLevel(level),
                dataset=dataset,
                flow=flow,
                error=error,
                details=details or {},
            )
        )

    def record(self, draft: EventDraft) -> Event:
        """Complete the draft with id, time and origin, queue it for writing, and pass it to the observers.

        Raises:
            OperationError: EVENT_LOG_NOT_WRITABLE if ten thousand events are pending because the
                storage is not writable.
            ValueError: the log is closed.
        """
        with self._state:
            if self._closed:
                msg = "the event log is closed"
                raise ValueError(msg)
            if len(self._pending) >= _MOST_PENDING and self._failure is not None:
                raise self._failure
            self._sequence += 1
            event = self._complete(draft, self._sequence)
            self._pending.append(event.to_line())
            self._urgent = self._urgent or event.level is EventLevel.ERROR
            self._state.notify_all()
        self._notify(event)
        return event

    def close(self) -> None:
        """Write the pending events and accept no more. Idempotent.

        Raises:
            OperationError: EVENT_LOG_NOT_WRITABLE if some events could not be written.
        """
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._writer.join()
        if self._pending and self._failure is not None:
            raise self._failure

    def _complete(self, draft: EventDraft, sequence: int) -> Event:
        """Make the final event, with all secrets known to this process redacted, for files, observers and hooks alike.

        Its time is never before the time of the last event, even if the clock is set back.
        """
        self._last_time = max(self._last_time, timestamp_text(self._clock.now()))
        return Event(
            # Derived from the update and the sequence, so that a line written twice is one event.
            id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.origin.update_id}/{sequence}")),
            sequence=sequence,
            origin=replace(self.origin, dataset_name=draft.dataset, flow_name=draft.flow),
            timestamp=self._last_time,
            message=hide_known(draft.message),
            level=draft.level,
            maturity_level=draft.maturity_level,
            error=None if draft.error is None else _without_secrets(draft.error),
            details=hide_known_values(draft.details),
            event_type=draft.event_type,
        )

    def _notify(self, event: Event) -> None:
        with self._observing:
            for observer in self._observers:
                failure = failure_of(observer, event)
                if failure is not None:
                    self._drop(observer, failure)

    def _drop(self, observer: Observer, error: Exception | SystemExit) -> None:
        self._observers = tuple(each for each in self._observers if each is not observer)
        name = getattr(observer, "__qualname__", type(observer).__name__)
        text = f"The observer {name} raised {type(error).__name__} and receives no more events."
        summary = summarize_error(error, fatal=False)
        self.record(hook_progress(hook=name, status="DISABLED", message=text, error=summary))

    def _write_until_closed(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._pending or self._closed)
                self._state.wait_for(lambda: self._urgent or self._closed, timeout=self._flush_seconds)
                lines, self._pending, self._urgent = self._pending, [], False
                last = self._closed
            if lines and not self._write(lines):
                with self._state:
                    self._pending = lines + self._pending
            if last:
                return

    def _write_part(self, text: str) -> None:
        """Append to the current file, or write a new file if the storage can't append."""
        if not self._storage.can_append:
            self._storage.write_text(self._part(self._parts), text)
            self._roll_over(_MOST_SMALL_PARTS)
            return
        self._storage.append_text(self._part(self._parts), text)
        self._part_bytes += len(text)
        if self._part_bytes >= _PART_BYTES:
            self._roll_over(_MOST_PARTS)

    def _roll_over(self, most: int) -> None:
        """Begin the next file; above `most` files, delete the oldest except the first, which has the definitions."""
        self._parts, self._part_bytes = self._parts + 1, 0
        if self._parts > most:
            _delete_if_possible(self._storage, self._part(self._parts - most))

    def _part(self, number: int) -> str:
        return _part_path(self._storage, self.origin.update_id, number)

    def _write(self, lines: list[str]) -> bool:
        # After a failed append the file may end in a partial line. A newline separates it from the next event. Readers
        # skip invalid lines, and read only one of several events with the same id.
        text = ("\n" if self._failure is not None else "") + "".join(lines)
        try:
            self._write_part(text)
        except OperationError as error:
            self._failure = OperationError("EVENT_LOG_NOT_WRITABLE", problem=error.what)
            return False
        self._failure = None
        return True


def _part_path(storage: Storage, update_id: str, number: int) -> str:
    suffix = f"-{number:05d}" if number or not storage.can_append else ""
    return storage.path(EVENTS_FOLDER, f"{update_id}{suffix}.jsonl")


def _without_secrets(error: EventError) -> EventError:
    found = (replace(each, message=hide_known(each.message)) for each in error.exceptions)
    return replace(error, exceptions=tuple(found))


Notification = TypeVar("Notification")


def failure_of(listener: Callable[[Notification], object], notification: Notification) -> Exception | SystemExit | None:
    """Call a listener; return the exception that it raised, or None."""
    try:
        listener(notification)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code: the caller records the failure and continues
        return error
    return None
