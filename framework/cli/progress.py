"""Progress of an update on standard error: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, TextIO

import click

from framework.cli.output import colours_wanted
from framework.foundation.clock import Clock
from framework.foundation.wording import counted, printable, seconds_text
from framework.record.events import Event, EventType
from framework.views.flow_board import FlowBoardTracker, FlowProgress, is_warning

_SECONDS_BETWEEN_LINES = 10.0
_LEAST_SECONDS = 0.1
_SILENT = frozenset({"QUEUED", "STARTING"})
_IDLE = "IDLE"
_MOST_NAMED = 3
"""The largest number of idle flows with the same reason that get a line each; more of them share one line."""


class Progress(AbstractContextManager["Progress"], Protocol):
    """Displays events during its block; may be called from any thread, one event at a time."""

    def __call__(self, event: Event) -> None:
        """Display an event."""
        ...

    def say(self, text: str) -> None:
        """Display a sentence that does not come from an event."""
        ...


def open_progress(stream: TextIO, *, title: str, clock: Clock, each_idle: bool = False) -> Progress:
    """Return the progress for a stream: live on a terminal, plain lines elsewhere.

    Args:
        stream: the stream.
        title: the name of the updated pipeline.
        clock: the present time.
        each_idle: whether plain lines name each idle flow, regardless of their number.
    """
    if stream.isatty() and colours_wanted(stream):
        # Rich is imported only here, because a log or a job has no live table.
        from framework.cli.live_progress import LiveProgress

        return LiveProgress(stream, title=title, clock=clock)
    return PlainProgress(stream, title=title, clock=clock, each_idle=each_idle)


class PlainProgress:
    """Progress in plain lines: one for each state change of the update or a flow, and periodic lines of running flows.

    The lines of flows that have been idle from the start are held back until the state of the update changes, or for
    ten seconds, so that many flows that are idle for the same reason share one line.
    """

    def __init__(self, stream: TextIO, *, title: str, clock: Clock, each_idle: bool = False) -> None:
        self._stream = stream
        self._title = title
        self._clock = clock
        self._tracker = FlowBoardTracker()
        self._each_idle = each_idle
        self._idle: dict[str, FlowProgress] = {}
        self._idle_since = 0.0
        self._printed: dict[str, tuple[str, float]] = {}
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Start without output."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Print the lines that were held back; printed lines stay."""
        with self._lock:
            self._say_idle()

    def __call__(self, event: Event) -> None:
        """Print a line if the event changes a state, or if the last line of a running flow is old enough."""
        with self._lock:
            progress = self._tracker(event)
            if self._idle and self._clock.monotonic() - self._idle_since >= _SECONDS_BETWEEN_LINES:
                self._say_idle()
            if event.event_type is EventType.UPDATE_PROGRESS:
                self._say_idle()
                self.say(f"{self._title}: {self._tracker.board.state}")
            elif is_warning(event):
                if event.message not in self._warned:  # several flows may wait for the same transaction
                    self._warned.add(event.message)
                    self.say(event.message)
            elif progress is not None:
                self._flow(progress)

    def say(self, text: str) -> None:
        """Print a line with the time of day."""
        click.echo(f"{self._clock.now().astimezone():%H:%M:%S}  {printable(text)}", file=self._stream, color=False)

    def _flow(self, progress: FlowProgress) -> None:
        """Print or hold back a flow's line, if it is due."""
        state, _ = self._printed.get(progress.flow, (_IDLE, 0.0))
        if not self._is_due(progress):
            return
        if progress.state == state == _IDLE and not self._each_idle:
            if not self._idle:
                self._idle_since = self._clock.monotonic()
            self._idle[progress.flow] = progress
        else:
            self._idle.pop(progress.flow, None)  # it is no longer idle
            self._say(progress)

    def _say(self, progress: FlowProgress) -> None:
        self.say(f"{self._tracker.board.title(progress)}: {_progress_text(progress, self._clock.now())}")

    def _say_idle(self) -> None:
        """Print the idle flows that were held back; many flows with one reason share a line."""
        held, self._idle = self._idle, {}
        of_reason: dict[str, list[FlowProgress]] = {}
        for progress in held.values():
            of_reason.setdefault(progress.reason, []).append(progress)
        for reason, flows in of_reason.items():
            if len(flows) > _MOST_NAMED:
                self.say(f"{counted(len(flows), 'flow')}: {_IDLE}{f' ({reason})' if reason else ''}")
            else:
                for progress in flows:
                    self._say(progress)

    def _is_due(self, progress: FlowProgress) -> bool:
        """Return whether the flow's state is new, or its last line is old enough."""
        if progress.state in _SILENT:
            return False
        state, printed_at = self._printed.get(progress.flow, ("", 0.0))
        now = self._clock.monotonic()
        if progress.state == state and now - printed_at < _SECONDS_BETWEEN_LINES:
            return False
        self._printed[progress.flow] = (progress.state, now)
        return True


def _progress_text(progress: FlowProgress, now: datetime) -> str:
    rows, seconds = progress.rows, progress.seconds(now)
    parts = (
        f"{progress.state} ({progress.reason})" if progress.reason else progress.state,
        rows if not rows or progress.upserted or progress.deleted else f"{rows} rows",
        seconds_text(seconds) if seconds is not None and seconds >= _LEAST_SECONDS else "",
        progress.quality,
    )
    return ", ".join(filter(None, parts))
