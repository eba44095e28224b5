"""PySpark's gateway to the JVM: launch, adopt, forget; and sessions in a JVM that another process started."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from py4j.java_gateway import JavaGateway, quiet_shutdown
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from framework.engine.jvm.java_errors import Py4JError

if TYPE_CHECKING:
    import subprocess

__all__ = [
    "JavaGateway",
    "adopt_gateway",
    "connect_gateway",
    "current_jvm",
    "forget_gateway",
    "forget_session",
    "is_active_context",
    "launched_gateway",
    "session_of_jvm",
    "shut_down_connections",
    "started_session",
    "uses_gateway",
]


def launched_gateway(output: int | IO[bytes]) -> JavaGateway:
    """Start a JVM by spark-submit, as PySpark does, with its output in a file.

    Raises:
        pyspark.errors.PySparkException: the JVM ended before it was ready.
    """
    return launch_gateway(None, {"stdout": output, "stderr": output})


def connect_gateway() -> JavaGateway:
    """Connect to the running JVM that PySpark's variables name."""
    return launch_gateway()


def adopt_gateway(gateway: Any, process: subprocess.Popen[bytes]) -> JavaGateway:
    """Set a gateway as PySpark's, so that PySpark starts no JVM."""
    gateway.proc = process
    SparkContext._gateway = gateway
    SparkContext._jvm = gateway.jvm
    adopted: JavaGateway = gateway
    return adopted


def forget_gateway() -> None:
    """Remove the gateway from PySpark, so that a later session starts a new JVM."""
    SparkContext._gateway = None
    SparkContext._jvm = None


def uses_gateway(spark: SparkSession, gateway: JavaGateway) -> bool:
    """Return whether a session belongs to the JVM of a gateway."""
    return spark.sparkContext._gateway is gateway


def current_jvm() -> int:
    """Return the process id of the JVM that PySpark uses in this process; 0 if there is none."""
    jvm: Any = SparkContext._jvm
    if jvm is None:
        return 0
    try:
        # By its full name: a lookup by parts searches all jars for each part.
        return int(getattr(jvm, "java.lang.ProcessHandle").current().pid())
    except (Py4JError, OSError):
        return 0


def started_session() -> SparkSession | None:
    """Return the active session of this process, or the session that it started; None if Spark does not run."""
    active = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return None if active is None or active.sparkContext._jsc is None else active


def is_active_context(spark: SparkSession) -> bool:
    """Return whether a session's context is the context of this process."""
    return spark.sparkContext is SparkContext._active_spark_context


def session_of_jvm(connected: Any) -> SparkSession:
    """Return a new session in a JVM's running Spark, and set its gateway as PySpark's."""
    SparkContext._gateway, SparkContext._jvm = connected, connected.jvm
    shared = connected.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    java_context = connected.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(shared.sparkContext())
    context = SparkContext(
        gateway=connected, jsc=java_context, conf=SparkConf(_jvm=connected.jvm, _jconf=java_context.getConf())
    )
    return SparkSession(context, shared.newSession())


def forget_session() -> None:
    """Remove the session from PySpark without stopping Spark in the JVM."""
    context: Any = SparkContext._active_spark_context
    gateway: Any = SparkContext._gateway
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    forget_gateway()
    with suppress(Py4JError, OSError, RuntimeError):  # the JVM may have ended, or a thread opens a connection
        if context is not None:
            context._jsc = None
            context._accumulatorServer.handle_error = lambda *_: None  # it prints the end of the JVM
            context._accumulatorServer.shutdown()
        if gateway is not None:
            shut_down_connections(gateway)
            gateway.close(keep_callback_server=False, close_callback_server_connections=True)


def shut_down_connections(gateway: Any) -> None:
    """Unblock reads in other threads: Py4J closes a stream before its socket, and would wait forever for a reader."""
    callbacks = vars(gateway).get("_callback_server")
    calls = gateway._gateway_client.deque.copy()  # a copy, because threads change it
    if callbacks is not None:
        with callbacks.lock:
            callbacks.is_shutdown = True  # closes every connection accepted from here on
            calls.extend(callbacks.connections)
    for connection in calls:
        if connection.socket is not None:
            quiet_shutdown(connection.socket)
