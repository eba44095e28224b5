"""Execution of a batch's queries: settings of the session, local checkpoints, and work in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark import inheritable_thread_target
from pyspark.storagelevel import StorageLevel

from framework.engine.jvm.call_sites import without_call_sites
from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_ADAPTIVE = "spark.sql.adaptive.enabled"
_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_READING_TASKS = "spark.sql.files.minPartitionNum"
_READING_TASKS_A_CORE = 4
_STACK_TRACES = "spark.sql.dataFrameQueryContext.enabled"
_MAX_FIELDS = "spark.sql.codegen.maxFields"
_WITHOUT_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_MOST_INTERPRETED_BYTES = 1 << 20


@contextmanager
def with_settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for the length of the block, then restore the previous ones."""
    before = {key: session.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, previous in before.items():
            if previous is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, previous)


@contextmanager
def planned_for(events: DataFrame) -> Iterator[None]:
    """Tune the queries of the block: no adaptive planning where it has no benefit, no codegen for few wide rows.

    Adaptive planning coalesces many small partitions. A session with no more shuffle partitions than
    cores gains nothing from it and pays for it: a batch of AUTO CDC takes 40 jobs with it and 22 without,
    and the rest of the query is planned again after each stage. Tables are read in several tasks per core: Spark
    estimates that opening a file costs as much as reading 4 MB, so one of two tasks may get all rows.

    Constraint propagation is off, too. A key that is a literal in the user's query is a constraint of the batch. Spark
    would push it as a filter to the target's Parquet files, which misses rows whose keys Parquet's readers compare
    differently (ADR 14). With constraints, a plan of hundreds of columns takes minutes.

    Columns are built without Java stack traces. Spark takes one per column for the line of code in an error, which
    costs a tenth of the CPU of a batch of a few rows; users' columns get theirs before the batch (ADR 55).

    Above `spark.sql.codegen.maxFields` columns, Spark generates code for each projection, again in each task. For a
    batch of a few rows that is most of the work, so these rows are interpreted: a batch into 60 columns, 20 of them
    structs, takes 7 s in place of 9 s (SCD type 1), and 10 s in place of 16 s (type 2). With 20,000 rows, code wins.

    Args:
        events: the rows that the block reads.
    """
    session = events.sparkSession
    cores = session.sparkContext.defaultParallelism
    wanted = {_CONSTRAINTS: "false", _STACK_TRACES: "false"}
    if int(session.conf.get(_SHUFFLE_PARTITIONS) or 0) <= cores:
        wanted |= {_ADAPTIVE: "false", _READING_TASKS: str(_READING_TASKS_A_CORE * cores)}
    if len(events.columns) > int(session.conf.get(_MAX_FIELDS) or 0) and _has_few_rows(events):
        wanted |= _WITHOUT_GENERATED_CODE
    with with_settings(session, wanted):
        yield


def _has_few_rows(frame: DataFrame) -> bool:
    """Return whether Spark estimates a frame to be small by its file sizes; other sources have no size."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes())) <= _MOST_INTERPRETED_BYTES


@contextmanager
def computed_once(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
    """Keep a frame's rows on the executors for the length of the block.

    Not `persist`: Spark recomputes a persisted frame when a table that it read from is written to (the
    auxiliary table, between two uses of the latest events). Spark also recomputes lost partitions, so two
    phases of one merge could read different rows. A local checkpoint has no lineage: if an executor is
    lost with a part of it, the batch fails and is replayed.
    Rows are stored deserialized: Java serialization costs more than all processing of the rows.

    Args:
        frame: the rows.
        at_once: compute the rows in a separate job, an action whose observed metrics a listener receives; else the
            first job that reads the rows computes them.
    """
    kept = frame.localCheckpoint(eager=at_once, storageLevel=StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        yield kept
    finally:
        # Only the JVM's plan knows the checkpoint's blocks; without this they stay until a garbage collection.
        kept._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: FBT003 - a JVM call


def count_kept(kept: DataFrame) -> int:
    """Return the number of rows of `computed_once`; computes the rows, without a shuffle, if no job has so far."""
    return int(kept._jdf.queryExecution().analyzed().rdd().count())


def compute(frame: DataFrame) -> None:
    """Compute unneeded rows: a stateful query must store the state of each batch, even of a skipped batch."""
    frame.write.format("noop").mode("overwrite").save()


@contextmanager
def in_background(session: SparkSession, work: Callable[[], T]) -> Iterator[Future[T]]:
    """Run work in the background during the block; the work has ended, successfully or not, when the block ends.

    Args:
        session: the session whose settings the work uses.
        work: runs in its own thread; its jobs belong to the job group of the block.

    Yields:
        A future with the work's result, which is complete when the block has ended.

    Raises:
        BaseException: the error of the work, unless the block itself raises one.
    """
    with ThreadPoolExecutor(1, "sluice-in_background") as threads:
        result = threads.submit(thread_target(session, work))
        yield result
    result.result()


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make a session active in this thread for the length of the block: JVM code reads the active settings."""
    sessions = java_class("org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def thread_target(session: SparkSession, work: Callable[[], T]) -> Callable[[], T]:
    """Return work as the target of a thread: the session is active in it, and it has this thread's job group."""

    def run() -> T:
        java_class("org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)
        with without_call_sites():
            return work()

    target: Callable[[], T] = inheritable_thread_target(session)(run)
    return target
