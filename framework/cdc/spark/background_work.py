"""Work for Spark that goes on beside other work: what one of them plans, the other computes meanwhile."""

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
def alongside(session: SparkSession, work: Callable[[], T]) -> Iterator[Future[T]]:
    """Work that runs while the block does, and has ended, well or not, when the block ends.

    Args:
        session: whose settings the work takes.
        work: what is done in a thread of its own, its jobs in the group of the block's.

    Yields:
        The work's result, once the block has ended.

    Raises:
        BaseException: what the work raised, unless the block itself raised something.
    """

    def run() -> T:
        java_class("org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)
        return work()

    with ThreadPoolExecutor(1, "sluice-alongside") as threads:
        result = threads.submit(inheritable_thread_target(session)(run))
        yield result
    result.result()
