"""Calls from the JVM to Python objects that implement a Java interface."""

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
# The JVM threads that called Python, by gateway and by the JVM's port of their connection.
_callers: dict[tuple[Any, int], Any] = {}


def accept_callbacks() -> None:
    """Let the JVM call Python from here on. Idempotent.

    Py4J's server listens as soon as its thread runs, but the JVM learns its port a moment later. Until then, a call
    from the JVM fails with "Error while obtaining a new communication channel". This happens on a busy machine, or if
    another thread has just started the server.
    """
    gateway: Any = SparkContext._gateway
    with _starting:
        ensure_callback_server_started(gateway)
        server = gateway._callback_server.server_socket
        if server is not None:  # it was not shut down
            with suppress(OSError):  # it has just been: the next call to the JVM says so
                server.listen()


def note_caller() -> None:
    """Remember the JVM thread that calls Python now, so that its connection can be closed after the thread's end.

    Py4J opens a connection for each such thread, with a thread and a descriptor in Python and a descriptor in the JVM.
    It never closes the connection: the JVM keeps it in a list even after the thread has ended. Each stream has a
    thread.
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
    """Close the connections of JVM threads that have called Python and ended."""
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
    """Close connections and remove them from the JVM's list, whose lock is held as briefly as in Py4J."""
    callbacks = JavaObject("GATEWAY_SERVER", client).getCallbackClient()
    lock, kept = (private_field(callbacks, name, of="py4j.CallbackClient") for name in ("lock", "connections"))
    lock.lock()
    try:
        for connection in list(kept.toArray()):
            socket = connection.getSocket()
            if socket is not None and socket.getLocalPort() not in ports:
                continue
            # A nested call adds its connection twice.
            kept.removeAll(java_class("java.util.Collections").singleton(connection))
            if socket is not None:
                connection.shutdown()  # Python's thread reads the end, and ends
    finally:
        lock.unlock()
