"""The state of a JVM before a command, to which it is restored after the command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java import private_field
from framework.foundation.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_SECONDS, _POLL_SECONDS = 5.0, 0.05
_PROCESSES = Path("/proc")
# From the bottom of a thread's stack: two or three methods of the thread and of the connection, then the command.
_BOTTOM_FRAMES = 6


class Baseline:
    """The state of a JVM without a command, taken before the first one.

    Args:
        spark: the session of the server; each command has a new one.
        clock: measures how long work may take to end.
    """

    def __init__(self, spark: SparkSession, clock: Clock) -> None:
        self._clock = clock
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._session: Any = spark._jsparkSession
        self._context: Any = spark.sparkContext._jsc.sc()
        self._properties = jvm.java.lang.System.getProperties().clone()
        self._listeners = [*self._all_listeners()]
        self._folders = {*self._python_folders()}
        self._lasting = self._lasting_state()
        # Another call may run, such as the release of an object that Python has collected.
        assert self._running_calls() >= 0, "the call that reads the stacks must be seen"

    def start_gateway(self) -> Any:
        """Start a gateway server for one command, with its own secret; its objects are released with it."""
        gateway = self._jvm.org.apache.spark.api.python.Py4JServer(self._context.conf())
        gateway.start()
        return gateway

    def restore(self) -> str | None:
        """Remove the state that a command left behind; return why the JVM must be replaced, or None.

        The JVM must be replaced if work of the command still runs, or if the command left state that can't be removed.
        """
        if self._context.isStopped():
            return "it stopped Spark"
        remains = self._remaining_work() or self._lasting_change()
        if remains is not None:
            return remains
        self._forget_python_workers()
        for listener in self._all_listeners():
            if not any(listener.equals(own) for own in self._listeners):
                self._context.listenerBus().removeListener(listener)
        for folder in set(self._python_folders()) - self._folders:
            self._jvm.org.apache.spark.util.Utils.deleteRecursively(self._jvm.java.io.File(folder))
        shared = self._session.sharedState()
        shared.cacheManager().clearCache()
        shared.globalTempViewManager().clear()
        spark = self._jvm.org.apache.spark.sql
        spark.delta.DeltaLog.clearCache()
        spark.execution.streaming.state.StateStore.stop()
        spark.classic.SparkSession.setDefaultSession(self._session)
        self._jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # cached clients have the credentials of their session
        self._jvm.java.lang.System.setProperties(self._properties.clone())
        return self._remaining_work()

    def collect_garbage(self) -> None:
        """Free the memory of the last command."""
        self._jvm.java.lang.System.gc()

    def _remaining_work(self) -> str | None:
        """Return the work that still runs after a grace period; None if there is none."""
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        while (work := self._work()) is not None:
            if self._clock.monotonic() > deadline:
                return work
            self._clock.sleep(_POLL_SECONDS)
        return None

    def _work(self) -> str | None:
        """Describe a stream, a job or a call of a command that still runs; None if there is none."""
        if not self._session.sharedState().activeStreamingQueries().isEmpty():
            return "a stream still runs"
        jobs = [*self._context.statusTracker().getActiveJobIds()]
        if jobs:
            return f"the Spark jobs {jobs} still run"
        calls = self._running_calls()
        return f"{calls} calls to Java still run" if calls > 0 else None

    def _lasting_change(self) -> str | None:
        """Describe changes that only a new JVM can undo; None if there are none."""
        now = self._lasting_state()
        changed = [name for name, value in now.items() if self._lasting.get(name) != value]
        changed += [name for name in self._lasting if name not in now]
        return f"it changed {', '.join(changed)}" if changed else None

    def _running_calls(self) -> int:
        """Return the number of threads, other than this one, that execute a call from Python."""
        stacks = self._jvm.java.lang.Thread.getAllStackTraces()
        return sum(_is_running_call(entry.getValue()) for entry in stacks.entrySet().toArray()) - 1

    def _lasting_state(self) -> dict[str, str]:
        """Return the state that only a new JVM can reset, such as the in-memory catalog and added files.

        It includes Hadoop's configuration, the time zone and the locale: Spark and Java keep values that they have
        derived from the defaults.
        """
        catalog, context = self._session.sharedState().externalCatalog(), self._context
        found = {
            "Hadoop's configuration": str(context.hadoopConfiguration().getPropsWithPrefix("").hashCode()),
            "the default time zone": self._jvm.java.util.TimeZone.getDefault().getID(),
            "the default locale": self._jvm.java.util.Locale.getDefault().toString(),
            "the checkpoint folder": context.getCheckpointDir().toString(),
            "the added files": context.listFiles().toString(),
            "the added jars": context.listJars().toString(),
            "the added archives": context.listArchives().toString(),
        }
        if context.conf().get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
            databases = catalog.listDatabases()
            found["the databases"] = databases.toString()
            for number in range(databases.size()):
                name = databases.apply(number)
                found[f"the tables of {name}"] = catalog.listTables(name).toString()
                found[f"the functions of {name}"] = catalog.listFunctions(name, "*").toString()
        return found

    def _forget_python_workers(self) -> None:
        """Remove the Python workers from Spark's pool, which would send the next command's tasks to killed workers."""
        workers = private_field(self._jvm.org.apache.spark.SparkEnv.get(), "pythonWorkers")
        factories = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(workers)
        for entry in factories.entrySet().toArray():
            entry.getValue().stop()
        factories.clear()

    def _python_folders(self) -> Iterator[str]:
        """Yield the folders of PySpark's contexts: each command has one, which only the end of the JVM deletes."""
        root = str(self._jvm.org.apache.spark.util.Utils.getLocalDir(self._context.conf()))
        yield from (str(path) for path in Path(root).glob("pyspark-*"))

    def _all_listeners(self) -> Iterator[Any]:
        bus = self._context.listenerBus()
        for field in bus.getClass().getDeclaredFields():
            if field.getType().getSimpleName() == "CopyOnWriteArrayList":
                field.setAccessible(True)
                for queue in field.get(bus).toArray():
                    yield from queue.listeners().toArray()


def _is_running_call(stack: Any) -> bool:
    """Return whether a thread executes a call of Py4J."""
    depth = len(stack)
    names = [str(stack[depth - 1 - level].getClassName()) for level in range(min(depth, 2))]
    if "java.lang.Thread" not in names:
        return False
    names += [str(stack[depth - 1 - level].getClassName()) for level in range(2, min(depth, _BOTTOM_FRAMES))]
    return any(name.startswith("py4j.commands.") for name in names)


def kill_python_workers(jvm: int) -> None:
    """Kill the Python workers of a JVM: they hold the code of the modules that the last command imported.

    A daemon of PySpark leads a process group, and its workers are members of the group.
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
