"""Live progress: a table with one row per flow, redrawn periodically and removed at the end."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from framework.foundation.clock import Clock
from framework.foundation.wording import printable, seconds_text
from framework.record.events import Event
from framework.views.flow_board import STARTED, TONES, FlowBoard, FlowBoardTracker, is_warning
from framework.views.table import Tone

_OTHER_LINES = 5
_MOST_REASONS = 3
_REDRAWS_PER_SECOND = 8
_WITH_REASON = frozenset({"FAILED", "DEGRADED", *STARTED})
_SIGNS = {
    "COMPLETED": ("✓", "green"),
    "FAILED": ("✗", "bold red"),
    "DEGRADED": ("!", "yellow"),
    "SKIPPED": ("-", "yellow"),
    "STOPPED": ("-", "yellow"),
}


class LiveProgress:
    """A live table of an update's flows; other output scrolls above it."""

    def __init__(self, stream: TextIO, *, title: str, clock: Clock) -> None:
        self._title = title
        self._clock = clock
        self._started_at = clock.monotonic()
        self._tracker = FlowBoardTracker()
        self._warned: set[str] = set()
        self._spinner = Spinner("dots", style="cyan")
        self._console = Console(file=stream, highlight=False)
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            transient=True,
            refresh_per_second=_REDRAWS_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

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
        self._tracker(event)
        if is_warning(event) and event.message not in self._warned:
            self._warned.add(event.message)
            self.say(event.message)

    def say(self, text: str) -> None:
        """Print a sentence above the table."""
        self._console.print(Text(printable(text)))

    def _draw(self) -> RenderableType:
        board, now = self._tracker.board, self._clock.now()
        reasons = self._reasons(board)
        excerpt = board.excerpt(max(3, self._console.height - _OTHER_LINES - len(reasons)))
        head = Table.grid(padding=(0, 1))
        state = board.state.lower().replace("_", " ")
        elapsed = seconds_text(self._clock.monotonic() - self._started_at)
        head.add_row(
            self._spinner, Text(self._title, style="bold"), Text(state, style="cyan"), Text(elapsed, style="dim")
        )
        if not board.flows:
            return head
        hidden = board.without(excerpt.flows)
        rest = [Text(f"  … and {hidden.tally()}", style="dim")] if hidden.flows else []
        return Group(head, self._table(board, excerpt, now), *rest, *reasons)

    def _reasons(self, board: FlowBoard) -> list[Text]:
        """Return the reasons of failed, degraded and waiting flows, one line each."""
        titles = board.titles()
        return [
            Text(
                printable(f"  {titles[flow.flow]}: {flow.reason}"),
                style=_SIGNS.get(flow.state, ("", "yellow"))[1],
                no_wrap=True,
                overflow="ellipsis",
            )
            for flow in board.flows
            if flow.state in _WITH_REASON and flow.reason
        ][:_MOST_REASONS]

    def _table(self, board: FlowBoard, excerpt: FlowBoard, now: datetime) -> Table:
        """Return the rows of an excerpt, with titles that are unambiguous on the whole board."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        table.add_column("", width=1)
        table.add_column("flow", overflow="ellipsis", no_wrap=True)
        table.add_column("state", no_wrap=True)
        table.add_column("rows", justify="right", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("expectations", no_wrap=True)
        titles = board.titles()
        for flow in excerpt.flows:
            quiet = "dim" if TONES.get(flow.state) is Tone.QUIET else ""
            table.add_row(
                self._sign(flow.state),
                Text(printable(titles[flow.flow]), style=quiet),
                Text(flow.state.lower(), style=quiet or _SIGNS.get(flow.state, ("", "cyan"))[1]),
                Text(flow.rows),
                Text(seconds_text(flow.seconds(now)), style="dim"),
                Text(printable(flow.quality), style="yellow"),
            )
        return table

    def _sign(self, state: str) -> RenderableType:
        if state in STARTED:
            return self._spinner
        sign, style = _SIGNS.get(state, ("·", "dim"))
        return Text(sign, style=style)
