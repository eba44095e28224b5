"""The execution of one streaming query from start to end, on one checkpoint, with its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from framework.engine.jvm.callbacks import accept_callbacks, close_ended_callers, note_caller
from framework.engine.sessions.session import cloned
from framework.engine.streams.queries import progress_after, query_status, remove_query_listener
from framework.foundation.wording import exception_text
from framework.graph.queries.settings import set_option
from framework.plan.steps import AvailableNow, Continuous, Trigger
from framework.run.flows.stop_signal import StopSignal

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_SECONDS = 0.1
_PAUSE_MILLISECONDS = round(2000 * POLL_SECONDS)
"""Spark's pause between two checks for data; longer than a poll, so that a poll sees the query wait."""

Progress = dict[str, Any]
BatchFunction = Callable[[DataFrame, int], None]


class StoppedError(Exception):
    """The update was stopped, or the flow was paused, while the query ran; its checkpoint is consistent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTarget:
    """The target of a stream: a Delta table's `path`, a sink's `format` and options, or a batch function."""

    path: str | None = None
    format: str = "delta"
    options: tuple[tuple[str, str], ...] = ()
    batch_function: BatchFunction | None = None


def session_for(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session for one flow; its settings override the pipeline's.

    Raises:
        UserError: SPARK_SETTING_INVALID.
    """
    session = cloned(spark)
    for key, value in settings.items():
        set_option(session, key, value)
    return session


def run_stream(
    query_of: Callable[[list[BaseException]], DataFrame],
    target: StreamTarget,
    *,
    name: str,
    checkpoint: str,
    trigger: Trigger,
    stop: StopSignal,
    on_progress: Callable[[Progress], None],
    on_start: Callable[[str], None] = lambda _: None,
    is_held: Callable[[], bool] = lambda: False,
    idle_by_rows: bool = False,
    on_end: Callable[[], None] = lambda: None,
) -> None:
    """Stream the sources into the target until the trigger ends; return after the last batch is committed.

    A continuous query ends after the trigger's idle time. Ending it is always safe: an interrupted batch runs again at
    the next start, including any work that failed because of the interruption.

    Args:
        query_of: returns the query, in the session that runs it. Python sources append the exceptions that they raise
            to its argument, because Spark keeps only a part of them.
        target: the target of the rows.
        name: the name of the query.
        checkpoint: the path of its checkpoint.
        trigger: decides when it reads and when it ends.
        stop: stops it.
        on_progress: called with each progress report.
        on_start: called with the id of the query, which is in its checkpoint.
        is_held: whether an operator has paused the flow.
        idle_by_rows: whether batches without rows count as idle time.
        on_end: called before the query is stopped; a running call of a Python source must then end, because Spark waits
            for it.

    Raises:
        StoppedError: `stop` was set, or the flow was paused; the interrupted batch runs again at the next start.
        Exception: the failure of the query.
    """
    faults: list[BaseException] = []
    frame = query_of(faults)
    writer = _writer(frame, target, trigger, faults)
    query = _start(writer, target, name=name, checkpoint=checkpoint)
    idle = _Idle(trigger, by_rows=idle_by_rows)

    def progressed(progress: Progress) -> None:
        idle.progressed(progress)
        on_progress(progress)

    seen, is_ended = _Seen(progressed), False
    try:
        on_start(query.id)
        while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]  # stubs say int, the JVM takes fractions
            seen.look(query)
            if stop.is_set or is_held():
                raise StoppedError(name)
            is_ended |= not faults and idle.is_over(query)
            if faults or is_ended:
                query.stop()
    except StreamingQueryException as error:
        if is_ended:
            return
        if faults:  # the original exception, of which the JVM's error keeps only a part
            raise faults[-1] from error
        raise
    finally:
        on_end()
        if query.isActive:
            query.stop()
        seen.look(query)
        remove_query_listener(frame.sparkSession)
        close_ended_callers()
    if faults and not is_ended:  # of a source that has no more data for Spark
        raise faults[-1]


class _Seen:
    """Passes on each progress report once."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._last_batch = -1

    def look(self, query: StreamingQuery) -> None:
        for batch, progress in progress_after(query, self._last_batch):
            self._last_batch = batch
            self._on_progress(progress)


class _Idle:
    """Decides when a continuous query ends: after some seconds without data.

    Args:
        trigger: the trigger of the query.
        by_rows: whether only rows that the query reads count as data. A query that reads some partitions of a table has
            an empty batch for each commit to the others, and would otherwise never end.
    """

    def __init__(self, trigger: Trigger, *, by_rows: bool) -> None:
        idle_seconds = trigger.idle_seconds if isinstance(trigger, Continuous) else None
        interval = trigger.interval_seconds if isinstance(trigger, Continuous) else 0.0
        self._limit = None if idle_seconds is None else idle_seconds + interval
        self._by_rows = by_rows
        self._idle_seconds = 0.0
        self._is_empty = False

    def progressed(self, progress: Progress) -> None:
        """Process the progress report of a batch."""
        self._is_empty = progress["numInputRows"] == 0
        if not self._is_empty:
            self._idle_seconds = 0.0

    def is_over(self, query: StreamingQuery) -> bool:
        """Whether the query has had no data for long enough; called every `POLL_SECONDS`."""
        if self._limit is None:
            return False
        status = query_status(query)
        if status.has_data and not self._by_rows:
            self._idle_seconds = 0.0
            return False
        self._idle_seconds += POLL_SECONDS
        # While a batch runs, its rows are unknown, so the query may end only right after an empty batch.
        was_empty, self._is_empty = self._is_empty, False
        return self._idle_seconds >= self._limit and (was_empty or status.is_waiting)


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger:
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case Continuous(interval_seconds=seconds):
            return writer.trigger(processingTime=f"{round(seconds * 1000)} milliseconds")
    assert_never(trigger)


def _writer(frame: DataFrame, target: StreamTarget, trigger: Trigger, faults: list[BaseException]) -> DataStreamWriter:
    if isinstance(trigger, Continuous):
        frame.sparkSession.conf.set("spark.sql.streaming.pollingDelay", f"{_PAUSE_MILLISECONDS}ms")
    writer = _triggered(frame.writeStream, trigger)
    function = target.batch_function
    if function is not None:

        def apply(batch: DataFrame, number: int) -> None:
            note_caller()
            try:
                function(batch, number)
            except Exception as error:
                faults.append(error)
                raise
            except BaseException as error:
                faults.append(error)
                # Py4J passes only an Exception to the JVM: after `sys.exit()` the query would wait forever.
                raise RuntimeError(exception_text(error)) from error

        accept_callbacks()
        return writer.foreachBatch(apply)
    return writer.format(target.format).outputMode("append").options(**dict(target.options))


def _start(writer: DataStreamWriter, target: StreamTarget, *, name: str, checkpoint: str) -> StreamingQuery:
    writer = writer.option("checkpointLocation", checkpoint).queryName(name)
    return writer.start(target.path) if target.path is not None else writer.start()
