"""Calls from the JVM to Python objects that implement an interface of Java."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from framework.engine.jvm.java import java_class, private_field
from framework.engine.jvm.java_errors import Py4JError

_starting = threading.Lock()
_noting = threading.Lock()
# The threads of the JVM that called Python, by gateway and the port that the JVM has in their connection.
_callers: dict[tuple[Any, int], Any] = {}


def accept_callbacks() -> None:
    """Let the JVM call Python from here on. Idempotent.

    Py4J's server listens as soon as its thread runs, and the JVM knows its port a moment later. Before that, a call of
    the JVM fails with "Error while obtaining a new communication channel": on a busy machine, or if another thread has
    just started the server.
    """
    gateway: Any = SparkContext._gateway
    with _starting:
        ensure_callback_server_started(gateway)
        server = gateway._callback_server.server_socket
        if server is not None:  # it was not shut down
            with suppress(OSError):  # it has just been: the next call to the JVM says so
                server.listen()


def note_caller() -> None:
    """Remember the thread of the JVM that calls Python now, so that its connection can be closed after its end.

    Py4J opens a connection for each such thread, with a thread and a descriptor in Python and a descriptor in the JVM,
    and never closes it: the JVM keeps it in a list, also after its thread has ended. Streams have a thread each.
    """
    client: Any = SparkContext._gateway._gateway_client  # type: ignore[union-attr]
    connection = client.get_thread_connection() if hasattr(client, "get_thread_connection") else None
    if connection is None or connection.initiated_from_client:
        return  # threads share connections (PYSPARK_PIN_THREAD), or this one belongs to a thread of Python
    caller = (client, connection.socket.getpeername()[1])
    if caller not in _callers:
        # Py4J runs this call in the thread that called.
        thread = java_class("java.lang.Thread").currentThread()
        with _noting:
            _callers[caller] = thread


def close_ended_callers() -> None:
    """Close the connections of those threads of the JVM that have called Python and ended."""
    gateway: Any = SparkContext._gateway
    with suppress(Py4JError, AttributeError):  # a JVM that has ended; another version of Py4J, with another field
        client = gateway._gateway_client
        with _noting:
            for other in [caller for caller in _callers if caller[0] is not client]:
                del _callers[other]  # of a JVM that has ended
            ended = {port for (_, port), thread in _callers.items() if not thread.isAlive()}
            if ended:
                _close(client, ended)
            for port in ended:
                del _callers[client, port]


def _close(client: Any, ports: set[int]) -> None:
    """Close connections and remove them from the list of the JVM; its lock is held as shortly as Py4J does."""
    callbacks = JavaObject("GATEWAY_SERVER", client).getCallbackClient()
    lock, kept = (private_field(callbacks, name, of="py4j.CallbackClient") for name in ("lock", "connections"))
    lock.lock()
    try:
        for connection in list(kept.toArray()):
            socket = connection.getSocket()
            if socket is not None and socket.getLocalPort() not in ports:
                continue
            # A call from within a call adds its connection twice.
            kept.removeAll(java_class("java.util.Collections").singleton(connection))
            if socket is not None:
                connection.shutdown()  # Python's thread reads the end, and ends
    finally:
        lock.unlock()
