"""How a command ends that was interrupted: with 128 and the signal's number, whatever it was doing.

Ctrl-C ends with 130 and SIGTERM with 143, as a shell and a service manager expect.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

_SIGNAL = "sluice.signal"


class Terminated(KeyboardInterrupt):
    """SIGTERM, which unwinds the process as Ctrl-C does."""


def exit_code(interrupt: BaseException | None) -> int:
    """The exit code of an interrupt; 1 for anything else, such as the end of the input at a prompt."""
    if isinstance(interrupt, Terminated):
        return 128 + signal.SIGTERM
    return 128 + signal.SIGINT if isinstance(interrupt, KeyboardInterrupt) else 1


def note_signal(number: int) -> None:
    """Remember that the command was asked to stop, which decides its exit code; without a command nothing happens."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_SIGNAL] = number


def noted_exit_code(context: click.Context) -> int | None:
    """The exit code of the signal that the command was asked to stop by; None if there was none."""
    number = context.meta.get(_SIGNAL)
    return None if number is None else 128 + int(number)


@contextmanager
def unwinding_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the main thread as Ctrl-C does, so that temporary folders and Spark go with it."""
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
