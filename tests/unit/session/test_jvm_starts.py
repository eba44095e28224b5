"""A JVM that fails while it starts, or whose start is interrupted, is ended: its other threads would go on for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.processes import start_of_process
from framework.session import jvm_process
from framework.session.jvm_options import GatewayCommand
from framework.session.jvm_process import start_local_jvm


class InterruptedClock(SystemClock):
    """A clock whose first wait for a started process is interrupted, as by Ctrl-C."""

    def __init__(self, started: Path) -> None:
        self.started = started

    def sleep(self, seconds: float) -> None:
        """Interrupt, once the process runs."""
        super().sleep(seconds)
        if self.started.exists() and self.started.read_text("utf-8").endswith("\n"):
            raise KeyboardInterrupt


def java(folder: Path, says: str) -> GatewayCommand:
    """A program that writes its number to a file, says something, and does not end."""
    script = f"echo $$ > '{folder}/pid'; echo '{says}' >&2; exec sleep 300"
    return GatewayCommand(options=("/bin/sh", "-c", script))


def has_ended(folder: Path) -> bool:
    """Whether the program has ended."""
    return start_of_process(int((folder / "pid").read_text("utf-8"))) == ""


@pytest.mark.parametrize(
    ("problem", "condition"),
    [("java.io.IOException: No space left on device", "DISK_FULL"), ("a.b.C: no", "SPARK_NOT_STARTED")],
)
def test_a_jvm_whose_main_thread_fails_is_not_waited_for(tmp_path: Path, problem: str, condition: str) -> None:
    """A full temporary folder is named; before, the start waited for three minutes."""
    command = java(tmp_path, f'Exception in thread "main" {problem}')
    with pytest.raises(OperationError) as raised:
        start_local_jvm(command, "/spark", SystemClock(), verbose=False)
    assert (raised.value.condition, problem in raised.value.what) == (condition, True)
    assert has_ended(tmp_path)


def test_an_interrupted_start_leaves_no_jvm(tmp_path: Path) -> None:
    """Whatever the JVM does at that moment."""
    with pytest.raises(KeyboardInterrupt):
        start_local_jvm(java(tmp_path, "starts"), "/spark", InterruptedClock(tmp_path / "pid"), verbose=False)
    assert has_ended(tmp_path)


def test_a_folder_without_space_is_named_before_a_jvm_starts(tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """Such a JVM could not even say what it lacks."""
    swap.setattr(jvm_process, "_LEAST_BYTES", 1 << 62)
    with pytest.raises(OperationError, match="DISK_FULL"):
        start_local_jvm(java(tmp_path, "starts"), "/spark", SystemClock(), verbose=False)
    assert not (tmp_path / "pid").exists()
