"""Failpoints kill at the armed position, and the crash tests cover all of them."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import framework
from framework.foundation.errors import InternalError
from framework.foundation.failpoints import FAILPOINTS, arm, disarm, failpoint

PASSES = """
from framework.foundation.failpoints import failpoint
for number in (1, 2, 3):
    print(number, flush=True)
    failpoint("storage.before_replace")
"""


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", (0, "1\n2\n3\n")),
        ("generations.before_delete", (0, "1\n2\n3\n")),
        ("storage.before_replace", (-9, "1\n")),
        ("storage.before_replace:3", (-9, "1\n2\n3\n")),
        ("storage.before_replace:4", (0, "1\n2\n3\n")),
    ],
)
def test_the_process_dies_at_the_nth_passing(wanted: str, expected: tuple[int, str]) -> None:
    """The variable's name and number decide at which passing the process is killed."""
    done = subprocess.run(
        [sys.executable, "-c", PASSES],
        env={**os.environ, "SLUICE_FAILPOINT": wanted},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == expected


def test_children_in_a_session_of_its_own_die_too() -> None:
    """A process that leads its session kills its children too, in any process group."""
    program = (
        "import subprocess; from framework.foundation.failpoints import failpoint;"
        "subprocess.Popen(['sleep', '60'], process_group=0); failpoint('storage.before_replace')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "SLUICE_FAILPOINT": "storage.before_replace"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        # The child holds the pipe's other end too: without its death the output would not end for a minute.
        process.communicate(timeout=30)
    assert process.returncode == -9


def test_an_unregistered_failpoint_is_our_bug() -> None:
    """A name outside FAILPOINTS raises, also when no failpoint is wanted."""
    with pytest.raises(InternalError, match="FAILPOINT_UNKNOWN"):
        failpoint("no.such.place")
    with pytest.raises(InternalError, match="FAILPOINT_UNKNOWN"):
        arm("no.such.place", action=lambda: None)


def test_a_misspelt_failpoint_ends_the_program_at_once() -> None:
    """A crash test with an unknown failpoint fails instead of testing nothing."""
    environment = {**os.environ, "SLUICE_FAILPOINT": "no.such.place"}
    command = [sys.executable, "-c", "import framework.foundation.failpoints; print('went on')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, "FAILPOINT_UNKNOWN" in done.stderr) == (1, "", True)


def test_a_test_may_arm_an_action_of_its_own() -> None:
    """The action runs once at the nth passing, until it is disarmed; passings are counted."""
    done: list[str] = []
    failpoint("storage.before_replace")
    arm("storage.before_replace", nth=2, action=lambda: done.append("done"))
    for _ in range(3):
        failpoint("storage.before_replace")
    passed = disarm()
    for _ in range(2):
        failpoint("storage.before_replace")
    assert (done, passed, disarm()) == (["done"], {"storage.before_replace": 3}, {"storage.before_replace": 2})


def test_names_in_the_source_and_in_the_list_are_the_same() -> None:
    """Each registered name occurs in the source, and each name in the source is registered."""
    source = pathlib.Path(framework.__file__).parent
    texts = [path.read_text() for path in source.rglob("*.py") if path.name != "failpoints.py"]
    placed = {name for text in texts for name in re.findall(r'failpoint(?:\(\s*|=)"([^"]+)"', text)}
    assert placed == FAILPOINTS
