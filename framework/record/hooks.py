"""Event hooks: user functions that get each event, one at a time, off the update's path."""

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
    """A user's function and how many failures in a row it may have (None: any number)."""

    name: str
    function: Callable[[dict[str, Any]], None]
    max_allowable_consecutive_failures: int | None = None


class HookRunner:
    """Hands the log's events to hooks, in order, from one thread.

    A hook that fails is recorded as a hook_progress event and gets the next event; after its
    allowed failures in a row it is switched off until the next update. hook_progress events are
    not handed to hooks, or a failing one would cause its own next failure. When ten thousand
    events wait, further ones are dropped and counted.

    Args:
        hooks: in the order in which each event is handed to them.
        log: where events come from and failures go to; close the runner before the log.
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
        """Deliver what waits, for so many seconds at most; again is the same."""
        if not self._worker.is_alive():
            return
        try:
            self._waiting.put(None, timeout=drain_seconds)
        except queue.Full:
            self._undelivered += 1
        self._worker.join(drain_seconds)
        left = self._undelivered + (self._waiting.qsize() if self._worker.is_alive() else 0)
        if left or self._worker.is_alive():
            self._given_up = True  # the log closes soon, and a hook that returns later can't be recorded
            text = f"Hooks were too slow: they still had work when the update ended, {left} event(s) were dropped."
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
        # A dictionary of its own, so that no hook sees another's changes.
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
        end = "It is switched off until the next update." if disabled else "It gets the next event."
        text = f"The hook {hook.name} raised {type(error).__name__}, {in_a_row} time(s) in a row. {end}"
        status = "DISABLED" if disabled else "FAILED"
        summary = summarize_error(error, fatal=False)
        if not self._given_up:
            self._log.record(hook_progress(hook=hook.name, status=status, message=text, error=summary))
