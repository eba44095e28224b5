"""Event hooks: user functions that receive each event, one at a time, in a separate thread."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.record.drafts import hook_progress
from framework.record.events import Event, EventType, summarize_error
from framework.record.log import EventLog, failure_of

_MOST_WAITING = 10_000
_DRAIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHook:
    """A user's function with its limit of consecutive failures (None: no limit)."""

    name: str
    function: Callable[[dict[str, Any]], None]
    max_allowable_consecutive_failures: int | None = None


class HookRunner:
    """Passes the log's events to hooks, in order, from one thread.

    The failure of a hook is recorded as a hook_progress event, and the hook receives the next event. A hook that
    reaches its limit of consecutive failures is disabled until the next update. Hooks do not receive hook_progress
    events, because a failing hook would cause its own next failure. While ten thousand events are queued, further
    events are dropped and counted.

    Args:
        hooks: the hooks, in the order in which they receive each event.
        log: the source of events, in which failures are recorded; close the runner before the log.
    """

    def __init__(self, hooks: Sequence[EventHook], log: EventLog) -> None:
        # By position: two modules may each have a hook of the same name.
        self._hooks = dict(enumerate(hooks))
        self._log = log
        self._waiting: queue.Queue[Event | None] = queue.Queue(maxsize=_MOST_WAITING)
        self._failures: Counter[int] = Counter()
        self._undelivered = 0
        self._given_up = False
        self._worker = threading.Thread(target=self._deliver_until_closed, name="sluice-event-hooks", daemon=True)
        if self._hooks:
            self._worker.start()
            log.subscribe(self._take)

    def close(self, *, drain_seconds: float = _DRAIN_SECONDS) -> None:
        """Deliver the queued events, for at most `drain_seconds`. Idempotent."""
        if not self._worker.is_alive():
            return
        try:
            self._waiting.put(None, timeout=drain_seconds)
        except queue.Full:
            self._undelivered += 1
        self._worker.join(drain_seconds)
        left = self._undelivered + (self._waiting.qsize() if self._worker.is_alive() else 0)
        if left or self._worker.is_alive():
            self._given_up = True  # the log closes soon, so a hook that returns later can't be recorded
            text = f"The event hooks did not process all events before the update ended; {left} event(s) were dropped."
            self._log.record(hook_progress(hook="*", status="DROPPED", message=text))

    def _take(self, event: Event) -> None:
        if event.event_type is EventType.HOOK_PROGRESS:
            return
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._undelivered += 1

    def _deliver_until_closed(self) -> None:
        while (event := self._waiting.get()) is not None and not self._given_up:
            for position in tuple(self._hooks):
                self._deliver(position, event)

    def _deliver(self, position: int, event: Event) -> None:
        # Each hook gets its own dictionary, so that no hook sees the changes of another.
        failure = failure_of(self._hooks[position].function, event.to_row())
        if failure is None:
            self._failures[position] = 0
        else:
            self._note_failure(position, failure)

    def _note_failure(self, position: int, error: Exception | SystemExit) -> None:
        hook = self._hooks[position]
        self._failures[position] += 1
        in_a_row = self._failures[position]
        allowed = hook.max_allowable_consecutive_failures
        disabled = allowed is not None and in_a_row >= max(allowed, 1)
        if disabled:
            del self._hooks[position]
        end = "It is disabled until the next update." if disabled else "It stays enabled."
        text = f"Event hook {hook.name} raised {type(error).__name__}, {in_a_row} consecutive time(s). {end}"
        status = "DISABLED" if disabled else "FAILED"
        summary = summarize_error(error, fatal=False)
        if not self._given_up:
            self._log.record(hook_progress(hook=hook.name, status=status, message=text, error=summary))
