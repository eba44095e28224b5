"""The crash harness kills at the given failpoint, reports a miss, and leaves no process behind."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from framework.foundation.failpoints import disarm, failpoint
from framework.foundation.files.storage import LocalStorage
from framework.testing.crashes import CrashPoint, freeze_at, run_killed

WRITE_TWICE = """
import sys
from framework.engine.files.storage import open_storage
for text in ("one", "two"):
    open_storage(sys.argv[1]).write_text("file", text)
print("done")
"""


@pytest.mark.parametrize(
    ("nth", "killed", "text"), [(1, True, None), (2, True, "one"), (3, False, "two")], ids=["first", "second", "never"]
)
def test_a_command_is_killed_at_the_nth_passing(
    tmp_path: pathlib.Path, nth: int, *, killed: bool, text: str | None
) -> None:
    """Writes before the failpoint exist, writes after it do not, and a miss is reported."""
    run = run_killed(
        [sys.executable, "-c", WRITE_TWICE, str(tmp_path)], CrashPoint(name="storage.before_replace", nth=nth)
    )
    assert (run.killed, run.output, LocalStorage(str(tmp_path)).read_text("file")) == (
        killed,
        "" if killed else "done\n",
        text,
    )


def test_a_command_that_hangs_is_killed_with_its_children() -> None:
    """After the timeout the whole session is killed: a pipe that a child has open is closed too."""
    command = [sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '600'], process_group=0).wait()"]
    with pytest.raises(subprocess.TimeoutExpired):
        run_killed(command, CrashPoint(name="storage.before_replace"), timeout_seconds=0.2)


def test_an_action_freezes_at_its_place(tmp_path: pathlib.Path) -> None:
    """The action blocks at the failpoint, and its next step does not happen."""
    storage = LocalStorage(str(tmp_path))
    storage.write_text("file", "old")
    point = CrashPoint(name="storage.before_replace")
    frozen = freeze_at({point: lambda: None}, lambda: storage.write_text("file", "new"))
    disarm()
    assert (frozen, storage.read_text("file")) == (True, "old")


def test_an_action_serves_several_failpoints_and_freezes_at_the_last_one(tmp_path: pathlib.Path) -> None:
    """Each failpoint sees what is durable at its moment, whatever the order in which they are listed."""
    storage = LocalStorage(str(tmp_path))
    first, second, third = (CrashPoint(name="storage.before_replace", nth=number) for number in (1, 2, 3))
    seen: list[str | None] = []

    def write() -> None:
        for text in ("one", "two", "three"):
            storage.write_text("file", text)

    def see() -> None:
        seen.append(storage.read_text("file"))

    frozen = freeze_at({third: see, second: see, first: see}, write)
    disarm()
    assert (frozen, seen, storage.read_text("file")) == (True, [None, "one", "two"], "two")


def test_an_action_that_passes_by_ends_as_usual() -> None:
    """An action that does not reach the failpoint ends normally, and the miss is reported."""
    point = CrashPoint(name="storage.before_replace", nth=2)
    assert freeze_at({point: lambda: None}, lambda: failpoint("storage.before_replace")) is False
    assert disarm() == {"storage.before_replace": 1}
