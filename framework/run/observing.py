"""The metrics that a batch query observed, as a stream reports its own in its progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BUS_TIMEOUT_MILLISECONDS = 10_000

Observed = dict[str, dict[str, int]]


@contextmanager
def observing(session: SparkSession) -> Iterator[Observed]:
    """Gather what queries of `session` observe; complete when the block has ended.

    Args:
        session: a session of one flow's own, so that nobody else's metrics come in between.

    Yields:
        name of the observation -> metric -> value; a query that ran several times counts once.
    """
    ensure_callback_server_started(session.sparkContext._gateway)
    found: Observed = {}
    listener = _Listener(found)
    manager: Any = session._jsparkSession.listenerManager()
    manager.register(listener)
    try:
        yield found
    finally:
        session._jsc.sc().listenerBus().waitUntilEmpty(_BUS_TIMEOUT_MILLISECONDS)
        manager.unregister(listener)


class _Listener:
    """A QueryExecutionListener of the JVM; its method names are Spark's."""

    def __init__(self, found: Observed) -> None:
        self._found = found

    def onSuccess(self, _function: str, execution: Any, _nanoseconds: int) -> None:  # noqa: N802 - the name that the JVM calls
        entries = execution.observedMetrics().iterator()
        while entries.hasNext():
            entry = entries.next()
            self._found.setdefault(entry._1(), _values(entry._2()))

    def onFailure(self, _function: str, _execution: Any, _error: Any) -> None:  # noqa: N802 - the name that the JVM calls
        """A failed query has no metrics; the caller gets its exception."""

    class Java:
        """Says to Py4J which interface this is."""

        implements: ClassVar = ["org.apache.spark.sql.util.QueryExecutionListener"]


def _values(row: Any) -> dict[str, int]:
    names = row.schema().fieldNames()
    return {names[index]: int(row.get(index)) for index in range(row.length())}
