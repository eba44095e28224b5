"""Displays of updates in a cell's output that change while the update runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle

from framework.diagrams.notebook import board_html, board_text
from framework.foundation.clock import SystemClock
from framework.foundation.display import at_prompt, html_of
from framework.graph.graph import DataflowGraph
from framework.record.events import Event
from framework.run.update.results import UpdateResult
from framework.running_update import RunningUpdate
from framework.views.flow_board import FlowBoardTracker

_SHORTEST_SECONDS = 0.2
_POLL_SECONDS = 0.5
_ended: list[tuple[int, UpdateResult]] = []
"""The result that a cell displays, with the number of the cell."""


class LiveDisplay:
    """An observer of one update that displays its graph with the state of each dataset, and at the end its result.

    Args:
        graph: returns the graph of the update; None before it is resolved.
    """

    def __init__(self, graph: Callable[[], DataflowGraph | None]) -> None:
        self._graph = graph
        self._tracker = FlowBoardTracker()
        self._output = _Output()
        self._clock = SystemClock()
        self._shown_at = float("-inf")
        self._lock = threading.Lock()
        self._has_ended = False

    def __call__(self, event: Event) -> None:
        """Apply an event of the update."""
        self._tracker(event)
        with self._lock:
            now = self._clock.monotonic()
            if not self._has_ended and now - self._shown_at >= _SHORTEST_SECONDS:
                self._shown_at = now
                self._show()

    def end(self, result: UpdateResult) -> None:
        """Replace the states by the result, which the same cell then does not display again as its value."""
        with self._lock:
            self._has_ended = True
            self._output.show(html_of(result) or "", repr(result))
            _ended[:] = [(_cell_number(), result)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        """After an error or an interrupt, leave the last states."""
        with self._lock:
            if not self._has_ended and self._tracker.board.flows:
                self._show()
            self._has_ended = True

    def _show(self) -> None:
        board, now = self._tracker.board, self._clock.now()
        self._output.show(board_html(board, now, self._graph()), at_prompt(board_text(board, now)))


def show_once(result: UpdateResult) -> None:
    """Display nothing if the running cell shows this result already.

    Raises:
        NotImplementedError: the cell does not show it; IPython then displays it as any other value.
    """
    if not any(number == _cell_number() and shown is result for number, shown in _ended):
        raise NotImplementedError


def _cell_number() -> int:
    shell: Any = get_ipython()
    return -1 if shell is None else int(shell.execution_count)


def follow(running: RunningUpdate) -> None:
    """Display an update in the background, and change the display until the update ends; return at once."""
    output, clock = _Output(), SystemClock()
    output.show(running._repr_html_(), repr(running))

    def refresh() -> None:
        while not running.has_ended:
            clock.sleep(_POLL_SECONDS)
            output.show(running._repr_html_(), repr(running))

    threading.Thread(target=refresh, name="sluice-display", daemon=True).start()


class _Output:
    """A place in a cell's output whose content can be replaced; one content after another without a change is one."""

    def __init__(self) -> None:
        self._handle = DisplayHandle()
        self._shown: dict[str, Any] | None = None

    def show(self, html: str, text: str) -> None:
        """Replace the content."""
        content = {"text/html": html, "text/plain": text}
        if content == self._shown:
            return
        if self._shown is None:
            self._handle.display(content, raw=True)
        else:
            self._handle.update(content, raw=True)
        self._shown = content
