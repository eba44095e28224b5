"""Live progress: a table with a row per flow that is redrawn periodically and removed at the end."""

from __future__ import annotations

import threading
from datetime import datetime
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from framework.cli.flow_board import BAD, GOOD, STARTED, FlowBoard, FlowProgress, flow_words
from framework.foundation.clock import Clock
from framework.foundation.wording import counted, quality_text, rows_text, seconds_text
from framework.record.events import Event

_ROOM_FOR_HEADS = 5
_REDRAWS_PER_SECOND = 8
_SIGNS = {
    "COMPLETED": ("✓", "green"),
    "FAILED": ("✗", "bold red"),
    "SKIPPED": ("-", "yellow"),
    "STOPPED": ("-", "yellow"),
}


class LiveProgress:
    """Live table of the flows of an update; other output scrolls above it."""

    def __init__(self, stream: TextIO, *, title: str, clock: Clock) -> None:
        self._title = title
        self._clock = clock
        self._began = clock.monotonic()
        self._board = FlowBoard()
        self._lock = threading.Lock()
        self._spinner = Spinner("dots", style="cyan")
        self._console = Console(file=stream, highlight=False)
        self._live = Live(
            get_renderable=self._draw, console=self._console, transient=True, refresh_per_second=_REDRAWS_PER_SECOND,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        """Start drawing."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the table."""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Apply an event; the next redraw displays it."""
        with self._lock:
            self._board.take(event)

    def say(self, text: str) -> None:
        """Print a sentence above the table."""
        self._console.print(Text(text))

    def _draw(self) -> RenderableType:
        with self._lock:
            flows = list(self._board.flows.values())
            state, short = self._board.state, self._board.short()
        shown = _most_telling(flows, max(3, self._console.height - _ROOM_FOR_HEADS))
        head = Table.grid(padding=(0, 1))
        elapsed = seconds_text(self._clock.monotonic() - self._began)
        words = state.lower().replace("_", " ")
        head.add_row(
            self._spinner, Text(self._title, style="bold"), Text(words, style="cyan"), Text(elapsed, style="dim")
        )
        if not flows:
            return head
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        table.add_column("", width=1)
        table.add_column("flow", overflow="ellipsis", no_wrap=True)
        table.add_column("state", no_wrap=True)
        table.add_column("rows", justify="right", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("expectations", no_wrap=True)
        for progress in shown:
            table.add_row(*self._row(progress, flow_words(progress.flow, progress.dataset, short)))
        hidden = [progress for progress in flows if progress not in shown]
        return Group(head, table, *([Text(f"  … and {_tally(hidden)}", style="dim")] if hidden else []))

    def _row(self, progress: FlowProgress, name: str) -> tuple[RenderableType, ...]:
        quiet = "dim" if progress.status in {"QUEUED", "IDLE", "EXCLUDED"} else ""
        return (
            self._sign(progress.status),
            Text(name, style=quiet),
            Text(progress.status.lower(), style=quiet or _SIGNS.get(progress.status, ("", "cyan"))[1]),
            Text(rows_text(progress.written, progress.upserted, progress.deleted)),
            Text(seconds_text(progress.seconds(self._now())), style="dim"),
            Text(quality_text(progress.failed, progress.dropped), style="yellow"),
        )

    def _sign(self, status: str) -> RenderableType:
        if status in STARTED:
            return self._spinner
        sign, style = _SIGNS.get(status, ("·", "dim"))
        return Text(sign, style=style)

    def _now(self) -> datetime:
        return self._clock.now()


def _most_telling(flows: list[FlowProgress], most: int) -> list[FlowProgress]:
    """Return the flows that fit, by priority: failed, running, stopped, skipped, completed (latest first), queued."""
    if len(flows) <= most:
        return flows
    order = {"FAILED": 0, "RUNNING": 1, "STARTING": 1, "STOPPED": 2, "SKIPPED": 3, "COMPLETED": 4, "QUEUED": 5}

    def rank(progress: FlowProgress) -> tuple[int, float]:
        ended = progress.until.timestamp() if progress.until else 0.0
        return order.get(progress.status, 6), -ended

    chosen = sorted(flows, key=rank)[:most]
    return [progress for progress in flows if progress in chosen]


def _tally(flows: list[FlowProgress]) -> str:
    """Return the numbers of flows that are done, not done or still open, in words."""
    done = sum(progress.status in GOOD for progress in flows)
    bad = sum(progress.status in BAD for progress in flows)
    rest = len(flows) - done - bad
    parts = ((done, "done"), (bad, "not done"), (rest, "more"))
    return ", ".join(f"{counted(count, 'flow')} {word}" for count, word in parts if count)
