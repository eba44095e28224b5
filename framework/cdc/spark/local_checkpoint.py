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
    """The same rows, kept by the executors for the length of the block.

    Not `persist`: Spark computes a persisted frame anew when a table that it read from is written
    to (the companion table, between two uses of the winners), and computes lost parts anew, by
    which two phases of one merge could see different rows. A local checkpoint is cut off from
    where it came from: if an executor is lost with a part of it, the batch fails and comes again.
    Rows are kept as they are: Java's serialization costs more than all that is done to them.

    Args:
        frame: the rows.
        at_once: compute them in a job of their own, and so as an action whose observed metrics a listener
            hears of; else the first job that reads them does.
    """
    kept = frame.localCheckpoint(eager=at_once, storageLevel=StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        yield kept
    finally:
        # Only the JVM's plan knows the checkpoint's blocks; without this they stay until a garbage collection.
        kept._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: FBT003 - a call of the JVM's
