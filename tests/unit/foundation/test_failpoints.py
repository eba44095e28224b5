"""Failpoints kill where they are told to, and none is left out of the crash tests."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import framework
from framework.foundation.errors import InternalError
from framework.foundation.failpoints import FAILPOINTS, failpoint

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
        ("another.name", (0, "1\n2\n3\n")),
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


def test_children_in_a_group_of_its_own_die_too() -> None:
    """A process that leads its group takes its children along, as a killed container does."""
    program = (
        "import subprocess; from framework.foundation.failpoints import failpoint;"
        "subprocess.Popen(['sleep', '60']); failpoint('storage.before_replace')"
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


def test_names_in_the_source_and_in_the_list_are_the_same() -> None:
    """Each registered name stands at a place in the source, and each place is registered."""
    source = pathlib.Path(framework.__file__).parent
    texts = [path.read_text() for path in source.rglob("*.py") if path.name != "failpoints.py"]
    placed = {name for text in texts for name in re.findall(r'failpoint\(\s*"([^"]+)"', text)}
    assert placed == FAILPOINTS
