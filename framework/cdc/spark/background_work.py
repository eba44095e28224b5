"""Background work for Spark: one piece of work is planned while another one computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark import inheritable_thread_target

from framework.cdc.spark.expression_cache import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


@contextmanager
def in_background(session: SparkSession, work: Callable[[], T]) -> Iterator[Future[T]]:
    """Run work in the background during the block; the work has ended, successfully or not, when the block ends.

    Args:
        session: the session whose settings the work uses.
        work: runs in a thread of its own; its jobs belong to the job group of the block.

    Yields:
        A future with the work's result, which is complete when the block has ended.

    Raises:
        BaseException: the error of the work, unless the block itself raises one.
    """

    def run() -> T:
        java_class("org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)
        return work()

    with ThreadPoolExecutor(1, "sluice-in_background") as threads:
        result = threads.submit(inheritable_thread_target(session)(run))
        yield result
    result.result()
