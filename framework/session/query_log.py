"""Suppresses PySpark's log of query errors on standard error while Sluice reports the same errors itself.

PySpark logs each exception that has a query context as one line of JSON with the whole Java stack, six
kilobytes for a mistyped column. It logs when it creates the exception, before any code can catch it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class _Silence(logging.Filter):
    """Drops every record while at least one block is open."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._open_blocks = 0

    def count(self, change: int) -> None:
        """Open or close a block."""
        with self._lock:
            self._open_blocks += change

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        del record
        return self._open_blocks == 0


_silence = _Silence()


@contextmanager
def quiet_query_log() -> Iterator[None]:
    """Drop PySpark's log of query errors inside the block; blocks may nest and overlap in threads."""
    silence_query_log()
    try:
        yield
    finally:
        _silence.count(-1)


def silence_query_log() -> None:
    """Drop PySpark's log of query errors for the rest of the process."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if _silence not in logger.filters:
            logger.addFilter(_silence)
    _silence.count(1)
