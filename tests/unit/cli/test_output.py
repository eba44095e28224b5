"""The width of a terminal that does not report one."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios

import pytest

from framework.cli.output import Output
from framework.views.table import Table


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
