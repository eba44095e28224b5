"""The updates of a pipeline in this process, and the handle to inspect and stop one in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from framework.diagrams.notebook import board_html, board_text
from framework.foundation.clock import SystemClock
from framework.foundation.display import at_prompt
from framework.record.events import Event
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.continuous.supervisor import FlowStatus
from framework.run.update.continuous.units import FlowHealth
from framework.run.update.results import UpdateResult, UpdateState
from framework.run.update.update import Update
from framework.views.flow_board import FlowBoard, FlowBoardTracker, FlowProgress

Observer = Callable[[Event], None]


MakeUpdate = Callable[[StopSignal, Sequence[Observer]], Update]
"""Builds an update from a stop signal and further observers of its events."""


class Updates:
    """The updates of one pipeline that run in this process.

    Args:
        finish: called after an update that was not stopped.
    """

    def __init__(self, finish: Callable[[], object]) -> None:
        self._finish = finish
        self._stops: list[StopSignal] = []

    def run(self, make: MakeUpdate) -> UpdateResult:
        """Run an update in the calling thread."""
        stop = StopSignal()
        with self._stoppable(stop):
            result = make(stop, ()).run()
        self._end(stop)
        return result

    def start(self, make: MakeUpdate) -> RunningUpdate:
        """Start an update in the background and return its handle."""
        stop, ended = StopSignal(), ExitStack()
        ended.enter_context(self._stoppable(stop))

        def run(update: Update) -> UpdateResult:
            with ended:
                result = update.run()
            self._end(stop)
            return result

        try:
            return RunningUpdate(lambda observe: make(stop, (observe,)), stop, run=run)
        except BaseException:
            ended.close()
            raise

    def stop(self) -> None:
        """Stop all running updates: their queries end, and checkpoints stay consistent."""
        for stop in tuple(self._stops):
            stop.set()

    @contextmanager
    def _stoppable(self, stop: StopSignal) -> Iterator[None]:
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)

    def _end(self, stop: StopSignal) -> None:
        if not stop.is_set:
            self._finish()


class RunningUpdate:
    """A background update, triggered or continuous; notebooks and prompts display its flow board.

    Args:
        make_update: builds the update; called in the caller's thread with an observer of its events.
        stop: the update's stop signal.
        run: runs the update to its end.
    """

    def __init__(
        self, make_update: Callable[[Observer], Update], stop: StopSignal, *, run: Callable[[Update], UpdateResult]
    ) -> None:
        self._stop = stop
        self._run_update = run
        self._tracker = FlowBoardTracker(state=UpdateState.CREATED.value)
        self._result: UpdateResult | None = None
        self._error: BaseException | None = None
        self._update = make_update(self._observe)
        self._thread = threading.Thread(target=self._run, name="sluice-update", daemon=True)
        self._thread.start()

    @property
    def update_id(self) -> str:
        """The update's id, as used by `sluice stop` and the event log."""
        return self._update.identity.update_id

    @property
    def state(self) -> UpdateState:
        """The current state of the update."""
        return UpdateState(self._tracker.board.state)

    @property
    def flows(self) -> tuple[FlowStatus, ...]:
        """The current state of each flow of a continuous update; () before it runs. See `board` for any update."""
        return self._update.flow_statuses

    @property
    def board(self) -> FlowBoard:
        """The state, the counts and the reason of each flow, as a value for pages and programs."""
        return self._tracker.board.with_states([_progress(status) for status in self.flows])

    @property
    def has_ended(self) -> bool:
        """Whether the update has ended; `wait` then returns at once."""
        return not self._thread.is_alive()

    def wait(self, timeout_seconds: float | None = None) -> UpdateResult | None:
        """Wait until the update ends and return its result; None if it still runs after `timeout_seconds`.

        Raises:
            SluiceError: the update could not start, or the update itself failed.
        """
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._result

    def stop(self) -> UpdateResult:
        """Stop the update and wait for its end: queries are stopped, checkpoints stay consistent.

        Raises:
            SluiceError: as in `wait`.
        """
        self._stop.set()
        result = self.wait()
        assert result is not None
        return result

    def __repr__(self) -> str:
        return at_prompt(board_text(self.board, SystemClock().now()))

    def _repr_html_(self) -> str:
        """Return the graph with states and the flow board for notebooks."""
        return board_html(self.board, SystemClock().now(), self._update.graph)

    def _observe(self, event: Event) -> None:
        self._tracker(event)

    def _run(self) -> None:
        try:
            self._result = self._run_update(self._update)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error


def _progress(status: FlowStatus) -> FlowProgress:
    result = status.result
    return FlowProgress(
        flow=str(status.flow),
        dataset=str(status.dataset),
        state="COMPLETED" if status.health is FlowHealth.DONE else status.health.value,
        reason=status.reason,
        written=result.rows_written if result else None,
        upserted=result.rows_upserted if result else 0,
        deleted=result.rows_deleted if result else 0,
        failed=sum(count.failed for count in result.expectations) if result else 0,
        dropped=result.rows_dropped if result else 0,
    )
