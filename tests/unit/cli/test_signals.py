"""Ctrl-C, SIGTERM and the end of the terminal stop an update."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.cli.progress import PlainProgress
from framework.cli.signals import Terminated, exit_code, run_stoppable, unwinding_when_ended
from framework.testing.manual_clock import ManualClock


@pytest.fixture(autouse=True)
def _hang_ups_are_heard() -> Iterator[None]:
    """A run of the tests under `nohup` ignores SIGHUP, and so would each of its processes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


@pytest.mark.parametrize(
    ("number", "interrupt", "code"),
    [
        (signal.SIGINT, KeyboardInterrupt, 130),
        (signal.SIGTERM, Terminated, 143),
        (signal.SIGHUP, Terminated, 129),
    ],
)
def test_the_first_signal_ends_at_once_while_nothing_has_started(
    number: signal.Signals, interrupt: type[BaseException], code: int
) -> None:
    """While Spark starts, nothing has to be stopped in order; the exit code is that of the signal."""
    release = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), number)
        release.wait(30)

    progress = PlainProgress(io.StringIO(), title="shop", clock=ManualClock())
    with pytest.raises(interrupt) as caught:
        run_stoppable(work, lambda: None, progress.say, has_started=lambda: False)
    release.set()
    assert exit_code(caught.value) == code


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


def test_an_update_below_nohup_outlives_the_terminal() -> None:
    """A SIGHUP that is ignored when the command starts stays ignored, also while an update runs."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stopped = threading.Event()

    def work() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        return "stopped" if stopped.wait(0.3) else "completed"

    with unwinding_when_ended():
        assert run_stoppable(work, stopped.set, lambda _: None) == "completed"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_stop_that_nobody_can_read_of_is_a_stop() -> None:
    """A reader of standard error that has ended does not keep the update from stopping in order."""
    stopped = threading.Event()

    def work() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "canceled" if stopped.wait(30) else "not stopped"

    def say(text: str) -> None:
        raise BrokenPipeError(text)

    assert run_stoppable(work, stopped.set, say) == "canceled"


_UPDATE = """
import os, sys, threading
from pathlib import Path
import click
from framework.cli.command import RESULTS, SluiceCommand
from framework.cli.main import cli
from framework.cli.signals import run_stoppable

@click.command("update", cls=SluiceCommand)
@click.pass_context
def update(context):
    stopped = threading.Event()

    def work():
        os.write(2, b"ready")  # at once: what follows would fail after the end of the terminal
        stopped.wait(30)

    run_stoppable(work, stopped.set, lambda text: click.echo(text, err=True))
    Path(sys.argv[1]).write_text("stopped in order")
    click.echo("a summary", file=context.meta[RESULTS])

cli.get_command = lambda context, name: update
sys.stdout = os.fdopen(os.dup(1), "w")
cli(["run"])
"""


def test_the_end_of_the_terminal_stops_an_update_in_order(tmp_path: Path) -> None:
    """Nothing can be written to it any more, and the exit code still says what has ended the command."""
    near, far = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _UPDATE, str(tmp_path / "end")],
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
    ) as process:
        os.close(far)
        assert b"ready" in os.read(near, 100)
        os.close(near)
        os.kill(process.pid, signal.SIGHUP)  # as the kernel does for the processes of a terminal's session
        assert process.wait(60) == 129
    assert (tmp_path / "end").read_text("utf-8") == "stopped in order"
