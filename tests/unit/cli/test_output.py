"""The width of a terminal that does not report one."""

from __future__ import annotations

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from framework.cli.output import Output
from framework.cli.updating import relative_path
from framework.views.table import Table


@pytest.mark.parametrize(
    ("arguments", "expected"), [("--help >&-", 0), ("nothing 2>&-", 2), ("nothing >&- 2>&- <&-", 2)]
)
def test_a_closed_stream_leads_to_nowhere(arguments: str, expected: int) -> None:
    """A command whose caller has closed a standard stream has its own exit code, and prints on no other stream."""
    command = f"exec {shlex.quote(sys.executable)} -m framework {arguments}"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (expected, "", "")


def test_a_folder_that_is_deleted_while_an_update_runs_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths of the summary are absolute then."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert relative_path(str(gone / "tables")) == "tables"
    gone.rmdir()
    assert relative_path("/storage/tables") == "/storage/tables"


@pytest.mark.parametrize(("columns", "size", "width"), [(None, 0, 80), ("0", 0, 80), ("0", 60, 60), ("40", 60, 40)])
def test_a_terminal_without_a_size_has_80_columns(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, size: int, width: int
) -> None:
    """A new pseudo-terminal reports 0 columns, and COLUMNS may be 0, too."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    controller, terminal = pty.openpty()
    with os.fdopen(controller), os.fdopen(terminal, "w") as stream:
        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 0, size, 0, 0))
        text = Output(stream=stream).formatted(Table.of(("message",), [("word " * 50,)]))
    assert max(map(len, text.splitlines()[2:])) == (width + 1) // 5 * 5 - 1
