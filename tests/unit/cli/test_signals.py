"""Ctrl-C and SIGTERM stop an update."""

from __future__ import annotations

import io
import os
import signal
import threading

import pytest

from framework.cli.progress import PlainProgress
from framework.cli.signals import Terminated, run_stoppable
from framework.testing.manual_clock import ManualClock


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_requests_a_stop_and_waits_for_the_end(number: signal.Signals) -> None:
    """The first signal calls `stop`; the result of the work is returned, and the handlers are restored."""
    stopped = threading.Event()
    before = signal.getsignal(number)
    stream = io.StringIO()

    def work() -> str:
        os.kill(os.getpid(), number)
        assert stopped.wait(30)
        return "canceled"

    progress = PlainProgress(stream, title="shop", clock=ManualClock())
    assert run_stoppable(work, stopped.set, progress.say) == "canceled"
    assert signal.getsignal(number) is before
    assert f"{number.name}: stopping" in stream.getvalue()


def test_a_second_signal_ends_the_wait() -> None:
    """A second Ctrl-C ends a command with work that does not stop."""
    release = threading.Event()
    asked = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        asked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(30)

    progress = PlainProgress(io.StringIO(), title="shop", clock=ManualClock())
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(work, asked.set, progress.say)
    release.set()


def test_an_exception_of_the_work_is_raised_in_the_command() -> None:
    """An error in the update's thread reaches the command."""

    def work() -> None:
        raise LookupError(work.__name__)

    with pytest.raises(LookupError, match="work"):
        run_stoppable(work, lambda: None, PlainProgress(io.StringIO(), title="shop", clock=ManualClock()).say)


@pytest.mark.parametrize(("number", "interrupt"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_the_first_signal_ends_at_once_while_nothing_has_started(
    number: signal.Signals, interrupt: type[BaseException]
) -> None:
    """While Spark starts, nothing has to be stopped in order."""
    release = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), number)
        release.wait(30)

    progress = PlainProgress(io.StringIO(), title="shop", clock=ManualClock())
    with pytest.raises(interrupt):
        run_stoppable(work, lambda: None, progress.say, has_started=lambda: False)
    release.set()


def test_a_stop_that_was_too_early_is_repeated() -> None:
    """The update may start after the signal."""
    heard, listening = threading.Event(), threading.Event()

    def work() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        listening.set()
        return heard.wait(30)

    def stop() -> None:
        if listening.is_set():
            heard.set()

    assert run_stoppable(work, stop, PlainProgress(io.StringIO(), title="shop", clock=ManualClock()).say)
