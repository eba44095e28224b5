"""A frame that is computed once, however many jobs read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.storagelevel import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        at_once: compute the rows in a job of their own, an action whose observed metrics a listener
            receives; else the first job that reads the rows computes them.
    """
    kept = frame.localCheckpoint(eager=at_once, storageLevel=StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        yield kept
    finally:
        # Only the JVM's plan knows the checkpoint's blocks; without this they stay until a garbage collection.
        kept._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: FBT003 - a JVM call
