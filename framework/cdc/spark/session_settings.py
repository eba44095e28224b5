"""Settings of a flow's own session, for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADAPTIVE = "spark.sql.adaptive.enabled"
_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_READING_TASKS = "spark.sql.files.minPartitionNum"
_READING_TASKS_A_CORE = 4


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
def planned_once(session: SparkSession) -> Iterator[None]:
    """Plan each query of the block once, where adaptive planning has no benefit.

    Adaptive planning coalesces many small partitions. A session with no more shuffle partitions than
    cores gains nothing from it and pays for it: a batch of AUTO CDC takes 40 jobs with it and 22 without,
    and the rest of the query is planned again after each stage. Tables are read in several tasks per core:
    Spark estimates that opening a file costs as much as reading 4 MB, so one of two tasks may get all rows.

    Spark infers no constraints either. A key that is a literal in the user's query is a constraint of the
    batch. Spark would push it as a filter to the target's Parquet files, which misses rows whose keys
    Parquet's readers compare in another way (ADR 14). A plan of hundreds of columns takes minutes with them.
    """
    cores = session.sparkContext.defaultParallelism
    wanted = {_CONSTRAINTS: "false"}
    if int(session.conf.get(_SHUFFLE_PARTITIONS) or 0) <= cores:
        wanted |= {_ADAPTIVE: "false", _READING_TASKS: str(_READING_TASKS_A_CORE * cores)}
    with with_settings(session, wanted):
        yield
