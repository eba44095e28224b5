"""Suppresses logs of PySpark on standard error while Sluice reports the same errors itself.

PySpark logs each exception that has a query context as one line of JSON with the whole Java stack, six
kilobytes for a mistyped column. It logs when it creates the exception, before any code can catch it. Py4J logs
a traceback if the JVM ends during a call. By `logging.exception` it gives the root logger a handler, which from then on
prints what Py4J's own loggers say too, such as the traceback of each batch that the end of the JVM interrupts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_PY4J_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")


_PY4J = "java_gateway"
"""The module of Py4J that logs to the root logger, which is the user's too."""


class _Silence(logging.Filter):
    """Drops records of the loggers, and Py4J's records on the root logger, while at least one block is open."""

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
        return self._open_blocks == 0 or (record.name == "root" and record.module != _PY4J)


_silence = _Silence()


@contextmanager
def quiet_query_log() -> Iterator[None]:
    """Drop PySpark's logs of errors inside the block; blocks may nest and overlap in threads."""
    silence_query_log()
    try:
        yield
    finally:
        _silence.count(-1)


def silence_query_log() -> None:
    """Drop PySpark's logs of errors for the rest of the process."""
    from pyspark.logger import PySparkLogger

    loggers = (logging.getLogger(), *map(logging.getLogger, _PY4J_LOGGERS), *map(PySparkLogger.getLogger, _LOGGERS))
    for logger in loggers:
        if _silence not in logger.filters:
            logger.addFilter(_silence)
    _silence.count(1)
