"""The call sites of columns: PySpark sends the line that builds a column to the JVM, for its error messages.

Each function of a column takes several round trips for that: they are a fifth of the calls of a small update.
Columns of users keep their call sites; the lines that Sluice builds columns on say nothing to a user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.errors import utils

_unwanted: ContextVar[bool] = ContextVar("_unwanted", default=False)
_is_enabled = utils.is_debugging_enabled


def _is_wanted() -> bool:
    return not _unwanted.get() and _is_enabled()


# PySpark has only a setting of the whole process. Without this function nothing changes: PySpark looks its own one up.
utils.is_debugging_enabled = _is_wanted


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Build columns without their call sites in the block, in this thread; no code of a user runs in it."""
    token = _unwanted.set(True)
    try:
        yield
    finally:
        _unwanted.reset(token)
