"""Signals: the first Ctrl-C, SIGTERM or SIGHUP stops a run in order, the second one ends the wait.

The exit code of an interrupted command is 128 plus the signal's number, as shells and service managers expect: 130 for
Ctrl-C, 143 for SIGTERM, and 129 for SIGHUP, which a closed terminal sends. Under `nohup`, SIGHUP has no effect.
"""

from __future__ import annotations

import errno
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import NoReturn, TypeVar

import click

_SIGNAL = "sluice.signal"
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 0.2

_Result = TypeVar("_Result")


class Terminated(KeyboardInterrupt):
    """The exception for SIGTERM or SIGHUP, which unwinds the process as Ctrl-C does.

    Args:
        number: the number of the signal.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(number)
        self.number = number


def exit_code(interrupt: BaseException | None) -> int:
    """Return the exit code of an interrupt; 1 for anything else, such as end of input at a prompt."""
    if isinstance(interrupt, Terminated):
        return 128 + interrupt.number
    return 128 + signal.SIGINT if isinstance(interrupt, KeyboardInterrupt) else 1


def record_signal(number: int) -> None:
    """Record the signal that stops the command, for its exit code; without a command, do nothing."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_SIGNAL] = number


def signal_exit_code(context: click.Context) -> int | None:
    """Return the exit code of the signal that stopped the command; None if there was no signal."""
    number = context.meta.get(_SIGNAL)
    return None if number is None else 128 + int(number)


@contextmanager
def unwinding_when_ended() -> Iterator[None]:
    """Unwind the main thread on SIGTERM and SIGHUP as on Ctrl-C, so that Spark and temporary folders are cleaned up."""
    with _handled(_ENDING, _terminate):
        yield


@contextmanager
def _handled(signals: Iterable[signal.Signals], handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle signals during the block, in the main thread only; a SIGHUP that `nohup` ignores stays ignored."""
    with ExitStack() as stack:
        for number in signals if threading.current_thread() is threading.main_thread() else ():
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            stack.callback(signal.signal, number, signal.signal(number, handle))
        yield


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    _leave_ended_terminal()
    raise Terminated(number)


def _leave_ended_terminal() -> None:
    """Redirect standard output and error to the null device if their terminal was closed, because writes would fail."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def run_stoppable(
    work: Callable[[], _Result],
    stop: Callable[[], None],
    say: Callable[[str], None],
    *,
    has_started: Callable[[], bool] = lambda: True,
) -> _Result:
    """Run `work` in a separate thread, so that this thread can handle signals; the first signal requests a stop.

    A separate thread avoids two problems of the main thread: PySpark replaces the SIGINT handler if it starts there,
    and waits in Py4J can't be interrupted. A second signal ends the wait; so does the first signal if `work` has not
    started anything that could be left unfinished. After a signal, the command's exit code is the signal's code,
    regardless of how `work` ends.

    Args:
        work: function that runs in a daemon thread, which does not keep the process alive.
        stop: requests the stop of `work`; called repeatedly until it ends, because an early request may have no
            effect.
        say: displays the sentence that confirms the signal.
        has_started: returns whether `work` has started something that must be stopped in order.

    Raises:
        KeyboardInterrupt: at the second signal, or at the first signal if nothing has started.
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
    """Convert the first SIGINT, SIGTERM or SIGHUP to a call of `stop`, and the second to a KeyboardInterrupt."""
    requested = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        record_signal(number)
        _leave_ended_terminal()
        if requested.is_set() or not has_started():
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)
        requested.set()
        stop()
        with suppress(OSError):  # the reader of standard error may have exited
            say(f"{signal.Signals(number).name}: stopping; committed rows stay. A second signal ends the wait.")

    with _handled((signal.SIGINT, *_ENDING), handle):
        yield requested
