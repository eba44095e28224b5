"""The output of a JVM on the terminal, for `-v`: line by line, without control characters and known secrets.

A log has what the data and their sources say: a name of a file may clear the screen, or set the clipboard.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from framework.foundation.masked_stream import masked
from framework.foundation.wording import printable_lines

_CHUNK = 1 << 16
_LAST_WORDS_SECONDS = 2.0
_COMPLETE = re.compile(rb".*[\r\n]", re.DOTALL)


@contextmanager
def shown_output() -> Iterator[int]:
    """Yield a descriptor for the output of a process that the block starts; a thread prints it to standard error.

    A line is printed when it is complete, so that no secret is cut in two. If the block raises, all that was written
    is printed before.
    """
    reader, writer = os.pipe()
    thread = threading.Thread(target=_print_until_end, args=(reader,), name="output of the JVM", daemon=True)
    thread.start()
    has_started = False
    try:
        yield writer
        has_started = True
    finally:
        os.close(writer)  # the process has its own
        if not has_started:
            thread.join(_LAST_WORDS_SECONDS)


def _print_until_end(descriptor: int) -> None:
    stream, left = masked(sys.stderr), b""
    with os.fdopen(descriptor, "rb", buffering=0) as output, suppress(OSError, ValueError):  # standard error is closed
        while chunk := output.read(_CHUNK):
            left += chunk
            match = _COMPLETE.match(left)
            if match is not None:
                left = left[match.end() :]
                stream.write(_shown(match[0]))
                stream.flush()
        stream.write(_shown(left))
        stream.flush()


def _shown(output: bytes) -> str:
    """Return output as lines; those that replace each other, of a progress bar, follow each other."""
    return printable_lines(output.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n"))
