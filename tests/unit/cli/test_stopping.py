"""Ctrl-C and SIGTERM stop an update."""

from __future__ import annotations

import io
import os
import signal
import threading

import pytest

from framework.cli.interruption import Terminated
from framework.cli.progress import PlainProgress
from framework.cli.stopping import run_stoppable
from framework.testing.manual_clock import ManualClock


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_waits_for_the_end(number: signal.Signals) -> None:
    """The first signal calls `stop`; the work's own result is returned, and the handlers are put back."""
    stopped = threading.Event()
    before = signal.getsignal(number)
    stream = io.StringIO()

    def work() -> str:
        os.kill(os.getpid(), number)
        assert stopped.wait(30)
        return "canceled"

    progress = PlainProgress(stream, title="shop", clock=ManualClock())
    assert run_stoppable(work, stopped.set, progress) == "canceled"
    assert signal.getsignal(number) is before
    assert f"{number.name}: stopping" in stream.getvalue()


def test_a_second_signal_gives_up_waiting() -> None:
    """Work that does not stop can be left with a second Ctrl-C."""
    release = threading.Event()
    asked = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        asked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(30)

    progress = PlainProgress(io.StringIO(), title="shop", clock=ManualClock())
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(work, asked.set, progress)
    release.set()


def test_what_the_work_raises_is_raised_here() -> None:
    """An error in the update's thread reaches the command."""

    def work() -> None:
        raise LookupError(work.__name__)

    with pytest.raises(LookupError, match="work"):
        run_stoppable(work, lambda: None, PlainProgress(io.StringIO(), title="shop", clock=ManualClock()))


@pytest.mark.parametrize(("number", "interrupt"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_the_first_signal_ends_at_once_while_nothing_has_begun(
    number: signal.Signals, interrupt: type[BaseException]
) -> None:
    """While Spark starts, there is nothing to stop."""
    release = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), number)
        release.wait(30)

    progress = PlainProgress(io.StringIO(), title="shop", clock=ManualClock())
    with pytest.raises(interrupt):
        run_stoppable(work, lambda: None, progress, has_begun=lambda: False)
    release.set()


def test_a_wish_that_came_too_early_to_be_heard_is_repeated() -> None:
    """The update may start after the signal."""
    heard, listening = threading.Event(), threading.Event()

    def work() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        listening.set()
        return heard.wait(30)

    def stop() -> None:
        if listening.is_set():
            heard.set()

    assert run_stoppable(work, stop, PlainProgress(io.StringIO(), title="shop", clock=ManualClock()))
