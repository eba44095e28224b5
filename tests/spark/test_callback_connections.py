"""Streams leave nothing behind in the process: a service runs thousands of them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from pyspark import SparkContext

from framework import pipelines as dp
from framework.engine.jvm.callbacks import close_ended_callers
from framework.engine.jvm.java import private_field
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPDATES = int(os.environ.get("SLUICE_UPDATES", "8"))
STREAMS = 4 if UPDATES > 8 else 2
"""`make soak` has 2,000 starts of streams in one process."""


def counts() -> tuple[int, int, int]:
    """Threads and descriptors of this process, and connections that the JVM keeps."""
    close_ended_callers()
    gateway: Any = SparkContext._gateway
    callbacks = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    kept = private_field(callbacks, "connections", of="py4j.CallbackClient")
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), int(kept.size())


def settled(limit: tuple[int, int, int]) -> tuple[int, int, int]:
    """The counts as soon as none is above the limit, or after a while: threads end a moment after their queries."""
    found = counts()
    for _ in range(100):
        if all(each <= most for each, most in zip(found, limit, strict=True)):
            break
        time.sleep(0.05)
        found = counts()
    return found


def test_streams_leave_no_threads_descriptors_and_connections(spark: SparkSession, tmp_path: Path) -> None:
    """After many updates the process has as many threads and descriptors as after the first one."""
    world = EngineWorld(spark, tmp_path)
    landing = tmp_path / "landing"
    landing.mkdir()

    def declare() -> None:
        for number in range(STREAMS - 1):

            @dp.table(name=f"t{number}")
            def copied() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source())

        @dp.table
        def files() -> DataFrame:  # a source in Python, which the JVM calls too
            return world.spark.readStream.format("cloudFiles").option("cloudFiles.format", "text").load(str(landing))

    def update(number: int) -> None:
        world.feed([(number,)], "id INT")
        (landing / f"{number}.txt").write_text(f"{number}\n")
        assert world.run(declare).state.value == "COMPLETED"

    update(0)
    # Java's finalizer gets one connection for good, as soon as the first collection finds objects of Python.
    threads, descriptors, connections = settled((0, 0, 0))
    limit = (threads + 1, descriptors + 1, connections + 1)
    for number in range(1, UPDATES):
        update(number)
    after = settled(limit)
    assert all(each <= most for each, most in zip(after, limit, strict=True)), (limit, after)
    assert world.rows("t0") == sorted(((number,) for number in range(UPDATES)), key=repr)
    assert len(world.rows("files")) == UPDATES
