"""Streaming queries in the JVM: progress, status, listeners, and observed metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryProgress

from framework.engine.jvm.callbacks import accept_callbacks
from framework.engine.jvm.java import private_field
from framework.engine.jvm.java_errors import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_BUS_TIMEOUT_MILLISECONDS = 10_000


class QueryStatus(NamedTuple):
    """The status of a query: its message, and whether it has found data that is not processed yet."""

    has_data: bool
    is_waiting: bool


def query_status(query: StreamingQuery) -> QueryStatus:
    """Return the present status of a query."""
    status = query._jsq.status()
    has_data = bool(status.isDataAvailable())
    # A source that looks for data reports none: it may list a large folder, or infer the columns of its files.
    return QueryStatus(has_data=has_data, is_waiting=not has_data and status.message().startswith("Waiting for "))


def progress_after(query: StreamingQuery, batch: int) -> Iterator[tuple[int, StreamingQueryProgress]]:
    """Yield number and progress of the batches after `batch`, oldest first; only these are parsed."""
    last = query._jsq.lastProgress()
    if last is None or last.batchId() <= batch:
        return
    fresh: list[Any] = []
    for progress in reversed(query._jsq.recentProgress()):
        if progress.batchId() <= batch:
            break
        fresh.append(progress)
    for progress in reversed(fresh):
        yield progress.batchId(), StreamingQueryProgress.fromJson(json.loads(progress.json()))


def remove_query_listener(session: SparkSession) -> None:
    """Remove Spark's listener for the queries of a session, after the last query has ended.

    Spark never removes it, and passes each event of each job to the listener of every session that ever ran a query. If
    query listeners are registered, the listener stays, because it still has to report the end of the query to them.
    """
    spark: Any = session._jsparkSession
    with suppress(Py4JError):  # another version of Spark, with another field; or a context that has been stopped
        manager = spark.sessionState().streamingQueryManager()
        if manager.listListeners() or manager.active():
            return
        spark.sparkContext().listenerBus().removeListener(private_field(manager, "listenerBus"))


@contextmanager
def metrics_observed(session: SparkSession, receive: Callable[[str, dict[str, int]], object]) -> Iterator[None]:
    """Pass on the observed metrics of a session's queries; all are delivered before the block ends.

    Args:
        session: the session.
        receive: gets the name of an observation and its metrics, once per run of its query.
    """
    accept_callbacks()
    listener = _Listener(receive)
    manager: Any = session._jsparkSession.listenerManager()
    manager.register(listener)
    try:
        yield
    finally:
        session._jsc.sc().listenerBus().waitUntilEmpty(_BUS_TIMEOUT_MILLISECONDS)
        manager.unregister(listener)


class _Listener:
    """A QueryExecutionListener for the JVM; Spark defines its method names."""

    def __init__(self, receive: Callable[[str, dict[str, int]], object]) -> None:
        self._receive = receive

    def onSuccess(self, _function: str, execution: Any, _nanoseconds: int) -> None:
        entries = execution.observedMetrics().iterator()
        while entries.hasNext():
            entry = entries.next()
            self._receive(entry._1(), _values(entry._2()))

    def onFailure(self, _function: str, _execution: Any, _error: Any) -> None:
        """Do nothing: a failed query has no metrics, and its exception reaches the caller."""

    class Java:
        """The implemented interface, for Py4J."""

        implements: ClassVar = ["org.apache.spark.sql.util.QueryExecutionListener"]


def _values(row: Any) -> dict[str, int]:
    names = row.schema().fieldNames()
    return {names[index]: int(row.get(index)) for index in range(row.length())}
