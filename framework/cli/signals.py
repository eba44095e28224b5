"""Signals: the first Ctrl-C or SIGTERM stops a run in order, the second ends the wait.

The exit code of an interrupted command is 128 plus the signal's number: 130 after Ctrl-C and 143 after SIGTERM, as a
shell and a service manager expect.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TypeVar

import click

_SIGNAL = "sluice.signal"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS = 0.2

_Result = TypeVar("_Result")


class Terminated(KeyboardInterrupt):
    """Exception for SIGTERM, which unwinds the process as Ctrl-C does."""


def exit_code(interrupt: BaseException | None) -> int:
    """Return the exit code of an interrupt; 1 for anything else, such as the end of the input at a prompt."""
    if isinstance(interrupt, Terminated):
        return 128 + signal.SIGTERM
    return 128 + signal.SIGINT if isinstance(interrupt, KeyboardInterrupt) else 1


def record_signal(number: int) -> None:
    """Record the signal that stops the command, for its exit code; do nothing without a command."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_SIGNAL] = number


def signal_exit_code(context: click.Context) -> int | None:
    """Return the exit code of the signal that stopped the command; None without a signal."""
    number = context.meta.get(_SIGNAL)
    return None if number is None else 128 + int(number)


@contextmanager
def unwinding_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the main thread as Ctrl-C does, so that temporary folders and Spark are cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise Terminated


def run_stoppable(
    work: Callable[[], _Result],
    stop: Callable[[], None],
    say: Callable[[str], None],
    *,
    has_started: Callable[[], bool] = lambda: True,
) -> _Result:
    """Run `work` in a separate thread, so that this one can handle signals; the first signal requests a stop.

    PySpark handles SIGINT itself if it starts in the main thread, and waits in Py4J can't be interrupted there; a
    separate thread avoids both. A second signal ends the wait, and so does the first one while `work` has not started
    anything that could be left unfinished. After a signal the command's exit code is the signal's, however `work` ends.

    Args:
        work: function that runs in a daemon thread, which does not keep the process alive.
        stop: requests the stop of `work`; called repeatedly until it ends, because an early request may have no
            effect.
        say: displays the sentence that confirms the signal.
        has_started: whether `work` has started something that has to be stopped in order.

    Raises:
        KeyboardInterrupt: at the second signal, or at the first one while nothing has started.
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
    with _stop_on_signal(stop, say, has_started) as requested:
        worker.start()
        while worker.is_alive():
            worker.join(_POLL_SECONDS)
            if requested.is_set():
                stop()
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def _stop_on_signal(
    stop: Callable[[], None], say: Callable[[str], None], has_started: Callable[[], bool]
) -> Iterator[threading.Event]:
    """Turn the first SIGINT or SIGTERM into a call of `stop`, and the second into a KeyboardInterrupt."""
    requested = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        record_signal(number)
        if requested.is_set() or not has_started():
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        requested.set()
        say(f"{signal.Signals(number).name}: stopping; committed rows stay. A second signal ends the wait.")
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    former = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield requested
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
