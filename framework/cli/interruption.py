"""Exit codes of interrupted commands: always 128 plus the signal's number.

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
    """Exception for SIGTERM, which unwinds the process as Ctrl-C does."""


def exit_code(interrupt: BaseException | None) -> int:
    """Return the exit code of an interrupt; 1 for anything else, such as the end of the input at a prompt."""
    if isinstance(interrupt, Terminated):
        return 128 + signal.SIGTERM
    return 128 + signal.SIGINT if isinstance(interrupt, KeyboardInterrupt) else 1


def note_signal(number: int) -> None:
    """Record the signal that stops the command, for its exit code; do nothing without a command."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_SIGNAL] = number


def noted_exit_code(context: click.Context) -> int | None:
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
