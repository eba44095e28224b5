"""What a JVM holds before a command, so that everything else is removed after the command."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.finalizer import ThreadSafeFinalizer
from py4j.java_gateway import JavaObject
from py4j.protocol import smart_decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_SECONDS, _POLL_SECONDS = 5.0, 0.05
_PROCESSES = Path("/proc")
_SERVER_ID = "GATEWAY_SERVER"
_FRAMES_OF_A_CALL = 4
_DEFAULT_DATABASE = "default"


class Baseline:
    """The state of a JVM without a command, taken before the first one.

    Args:
        spark: the session of the server; each command has a new one.
    """

    def __init__(self, spark: SparkSession) -> None:
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
        self._forget_python_workers()
        for listener in self._all_listeners():
            if not any(listener.equals(own) for own in self._listeners):
                self._context.listenerBus().removeListener(listener)
        shared = self._session.sharedState()
        shared.cacheManager().clearCache()
        shared.globalTempViewManager().clear()
        if self._session.conf().get("spark.sql.catalogImplementation") == "in-memory":
            _empty(shared.externalCatalog())
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
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._is_busy():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
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

    def _forget_python_workers(self) -> None:
        """Remove the Python workers from Spark's pool, which would send the next command's tasks to killed ones."""
        environment = self._jvm.org.apache.spark.SparkEnv.get()
        field = environment.getClass().getDeclaredField("pythonWorkers")
        field.setAccessible(True)
        factories = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(field.get(environment))
        for factory in factories.values():
            factory.stop()
        factories.clear()

    def _forget_objects(self) -> None:
        """Remove the Java objects of Python processes that have ended: only a living process can do so itself."""
        own = {smart_decode(key).rpartition("o")[2] for key in tuple(ThreadSafeFinalizer.finalizers)}
        kept = self._jvm.java.util.HashSet()
        for key in self._bindings.keySet().toArray():
            if not (key.startswith("o") and key[1:].isdecimal()) or key[1:] in own:
                kept.add(key)
        self._bindings.keySet().retainAll(kept)


def _empty(catalog: Any) -> None:
    """Drop all databases, tables and functions of a catalog in memory, which ends with the command's session."""
    for database in _names(catalog.listDatabases()):
        if database != _DEFAULT_DATABASE:
            catalog.dropDatabase(database, True, True)  # noqa: FBT003 - Java has no keywords: cascade
    for table in _names(catalog.listTables(_DEFAULT_DATABASE)):
        catalog.dropTable(_DEFAULT_DATABASE, table, True, True)  # noqa: FBT003 - the same: purge
    for function in _names(catalog.listFunctions(_DEFAULT_DATABASE, "*")):
        catalog.dropFunction(_DEFAULT_DATABASE, function)


def _names(sequence: Any) -> list[str]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _is_running_call(stack: Any) -> bool:
    """Return whether a thread executes a call of Py4J: from the bottom `run`, `run`, `waitForCommands`, the command."""
    depth = len(stack)
    if depth < _FRAMES_OF_A_CALL or not str(stack[depth - 2].getClassName()).startswith("py4j."):
        return False
    return str(stack[depth - _FRAMES_OF_A_CALL].getClassName()).startswith("py4j.commands.")


def kill_python_workers(jvm: int) -> None:
    """Kill the Python workers of a JVM: they hold the code of the modules that the last command imported.

    The JVM's child forks the workers, which outlive it; they are in its process group.
    """
    for process in _children(jvm):
        with suppress(ProcessLookupError):
            if os.getpgid(process) == process:
                os.killpg(process, signal.SIGKILL)
            else:
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
