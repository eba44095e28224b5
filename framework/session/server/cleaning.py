"""What a JVM holds before a command, so that everything else is removed after the command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.finalizer import ThreadSafeFinalizer
from py4j.java_gateway import JavaObject
from py4j.protocol import smart_decode

from framework.foundation.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_SECONDS, _POLL_SECONDS = 5.0, 0.05
_PROCESSES = Path("/proc")
_SERVER_ID = "GATEWAY_SERVER"
_FRAMES_OF_A_CALL = 4


class Baseline:
    """The state of a JVM without a command, taken before the first one.

    Args:
        spark: the session of the server; each command has a new one.
        clock: the clock of the time that work may take to end.
    """

    def __init__(self, spark: SparkSession, clock: Clock) -> None:
        self._clock = clock
        jvm: Any = spark._jvm
        self._jvm = jvm
        gateway: Any = spark.sparkContext._gateway
        self._bindings = JavaObject(_SERVER_ID, gateway._gateway_client).getGateway().getBindings()  # noqa: SLF001 - Py4J
        self._session: Any = spark._jsparkSession
        self._context: Any = spark.sparkContext._jsc.sc()
        self._hadoop = jvm.org.apache.hadoop.conf.Configuration(self._context.hadoopConfiguration())
        self._hadoop_hash = self._hash_of_hadoop()
        self._properties = jvm.java.lang.System.getProperties().clone()
        self._listeners = [*self._all_listeners()]

    def restore(self) -> bool:
        """Remove what a command left; False if some of its work still runs, which no one can take back."""
        if not self._has_stopped():
            return False
        for listener in self._all_listeners():
            if not any(listener.equals(own) for own in self._listeners):
                self._context.listenerBus().removeListener(listener)
        shared = self._session.sharedState()
        shared.cacheManager().clearCache()
        shared.globalTempViewManager().clear()
        self._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self._jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(self._session)
        if self._hash_of_hadoop() != self._hadoop_hash:
            self._context.hadoopConfiguration().clear()
            self._context.hadoopConfiguration().addResource(self._hadoop)
        self._jvm.java.lang.System.setProperties(self._properties.clone())
        self._forget_objects()
        return True

    def collect_garbage(self) -> None:
        """Free the memory of the last command."""
        self._jvm.java.lang.System.gc()

    def _has_stopped(self) -> bool:
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        while self._is_busy():
            if self._clock.monotonic() > deadline:
                return False
            self._clock.sleep(_POLL_SECONDS)
        return True

    def _is_busy(self) -> bool:
        """Return whether a stream, a job or a call of a command still runs."""
        if not self._session.sharedState().activeStreamingQueries().isEmpty():
            return True
        tracker = self._context.statusTracker()
        return len(tracker.getActiveJobIds()) > 0 or self._running_calls() > 0

    def _running_calls(self) -> int:
        """Return the number of threads that execute a call from Python, apart from this one."""
        stacks = self._jvm.java.lang.Thread.getAllStackTraces()
        running = sum(_is_running_call(entry.getValue()) for entry in stacks.entrySet().toArray())
        return running - 1

    def _hash_of_hadoop(self) -> int:
        return int(self._context.hadoopConfiguration().getPropsWithPrefix("").hashCode())

    def _all_listeners(self) -> Iterator[Any]:
        bus = self._context.listenerBus()
        for field in bus.getClass().getDeclaredFields():
            if field.getType().getSimpleName() == "CopyOnWriteArrayList":
                field.setAccessible(True)
                for queue in field.get(bus).toArray():
                    yield from queue.listeners().toArray()

    def _forget_objects(self) -> None:
        """Remove the Java objects of Python processes that have ended: only a living process can do so itself."""
        own = {smart_decode(key).rpartition("o")[2] for key in tuple(ThreadSafeFinalizer.finalizers)}
        kept = self._jvm.java.util.HashSet()
        for key in self._bindings.keySet().toArray():
            if not (key.startswith("o") and key[1:].isdecimal()) or key[1:] in own:
                kept.add(key)
        self._bindings.keySet().retainAll(kept)


def _is_running_call(stack: Any) -> bool:
    """Return whether a thread executes a call of Py4J: from the bottom `run`, `run`, `waitForCommands`, the command."""
    depth = len(stack)
    if depth < _FRAMES_OF_A_CALL or not str(stack[depth - 2].getClassName()).startswith("py4j."):
        return False
    return str(stack[depth - _FRAMES_OF_A_CALL].getClassName()).startswith("py4j.commands.")


def kill_python_workers(jvm: int) -> None:
    """Kill the Python workers of a JVM: they hold the code of the modules that the last command imported."""
    for process in _children(jvm):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _children(parent: int) -> Iterator[int]:
    if not _PROCESSES.is_dir():
        return
    for entry in _PROCESSES.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError):
                status = (entry / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
                if int(status[1]) == parent:
                    yield int(entry.name)
