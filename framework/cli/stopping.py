"""Ctrl-C and SIGTERM ask a run to stop; the second time they end it."""

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
    """Do `work` in a thread, so that this one is free for signals; the first asks to stop.

    PySpark takes SIGINT for itself when it starts in the main thread, and waits in Py4J can't be
    interrupted there; a thread of its own avoids both. A second signal gives up waiting, and so does
    the first one while nothing has begun that could be left half done. The command's exit code is the
    signal's, however `work` ends.

    Args:
        work: runs in a thread of its own, which does not keep the process alive.
        stop: asks `work` to stop; called again and again until it ends, as it may be asked too early to hear.
        progress: tells that the signal was received.
        has_begun: whether there is something to stop in order.

    Raises:
        KeyboardInterrupt: at the second signal, or at the first one while nothing has begun.
        Exception: what `work` raised.
    """
    outcome: list[_Result] = []
    failure: list[BaseException] = []

    def do() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
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
