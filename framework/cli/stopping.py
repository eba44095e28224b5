"""Stop of a run by Ctrl-C or SIGTERM: the first signal requests the stop, the second ends the wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from framework.cli.interruption import Terminated, note_signal
from framework.cli.progress import Progress

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS = 0.2

_Result = TypeVar("_Result")


def run_stoppable(
    work: Callable[[], _Result],
    stop: Callable[[], None],
    progress: Progress,
    *,
    has_begun: Callable[[], bool] = lambda: True,
) -> _Result:
    """Run `work` in a separate thread, so that this one can handle signals; the first signal requests a stop.

    PySpark handles SIGINT itself if it starts in the main thread, and waits in Py4J can't be interrupted there; a
    separate thread avoids both. A second signal ends the wait, and so does the first one while `work` has not begun
    anything that could be left unfinished. After a signal the command's exit code is the signal's, however `work` ends.

    Args:
        work: function that runs in a daemon thread, which does not keep the process alive.
        stop: requests the stop of `work`; called repeatedly until it ends, because an early request may have no
            effect.
        progress: displays that the signal was received.
        has_begun: whether `work` has begun something that has to be stopped in order.

    Raises:
        KeyboardInterrupt: at the second signal, or at the first one while nothing has begun.
        Exception: the exception of `work`.
    """
    outcome: list[_Result] = []
    failure: list[BaseException] = []

    def do() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            failure.append(error)

    worker = threading.Thread(target=do, name="sluice-update", daemon=True)
    with _stop_on_signal(stop, progress, has_begun) as asked:
        worker.start()
        while worker.is_alive():
            worker.join(_POLL_SECONDS)
            if asked.is_set():
                stop()
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def _stop_on_signal(
    stop: Callable[[], None], progress: Progress, has_begun: Callable[[], bool]
) -> Iterator[threading.Event]:
    """Turn the first SIGINT or SIGTERM into a call of `stop`, and the second into a KeyboardInterrupt."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        note_signal(number)
        if asked.is_set() or not has_begun():
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        asked.set()
        progress.say(f"{signal.Signals(number).name}: stopping; what is committed stays. Again: give up waiting.")
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    former = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
