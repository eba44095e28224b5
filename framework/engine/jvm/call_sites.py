"""The call sites of columns: PySpark sends the line that builds a column to the JVM, for its error messages.

Each column function takes several round trips for this, a fifth of the calls of a small update. Users' columns keep
their call sites; the lines where Sluice builds columns are of no use to a user.

To find a notebook's cell, PySpark imports IPython if it is installed (0.1 s), and searches for it in each call if it is
not. A process that has not imported IPython is not a notebook. In a notebook, PySpark names the running cell, which is
the cell of the update and not the cell with the query.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from types import FrameType

import pyspark
from pyspark.errors import utils
from pyspark.sql import SparkSession

_unwanted: ContextVar[bool] = ContextVar("_unwanted", default=False)
_of_pipeline: ContextVar[bool] = ContextVar("_of_pipeline", default=False)
_is_enabled = utils.is_debugging_enabled
_in_notebook = utils._capture_call_site
_PYSPARK = str(Path(pyspark.__file__).parent)


def _is_wanted() -> bool:
    if _unwanted.get():
        return False
    # PySpark reads its setting at the first column of the process. Without an active session, it would stay off.
    is_unread = utils._enable_debugging_cache is None
    return not (is_unread and SparkSession.getActiveSession() is None) and _is_enabled()


def _call_site(depth: int) -> str:
    """Return file and line of the innermost frames outside PySpark, a line each."""
    if "IPython" in sys.modules and not _of_pipeline.get():
        return _in_notebook(depth + 1).partition("\n")[2]  # the innermost frame is this function
    frames = (frame for frame in _frames(sys._getframe(1)) if not frame.f_code.co_filename.startswith(_PYSPARK))
    return "\n".join(f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in islice(frames, depth))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


# PySpark has only a process-wide setting. If this function is missing, nothing changes: PySpark uses its own function.
utils.is_debugging_enabled = _is_wanted
utils._capture_call_site = _call_site


@contextmanager
def call_sites_of_files() -> Iterator[None]:
    """Record the file of each call site in the block, in this thread; IPython gives each cell its own file name."""
    token = _of_pipeline.set(True)
    try:
        yield
    finally:
        _of_pipeline.reset(token)


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Build columns without call sites in the block, in this thread; no user code may run in it."""
    token = _unwanted.set(True)
    try:
        yield
    finally:
        _unwanted.reset(token)
