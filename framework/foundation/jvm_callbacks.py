"""Calls from the JVM to Python objects that implement an interface of Java."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

_starting = threading.Lock()


def accept_callbacks() -> None:
    """Let the JVM call Python from here on. Idempotent.

    Py4J's server listens as soon as its thread runs, and the JVM knows its port a moment later. Before that, a call of
    the JVM fails with "Error while obtaining a new communication channel": on a busy machine, or if another thread has
    just started the server.
    """
    gateway: Any = SparkContext._gateway
    with _starting:
        ensure_callback_server_started(gateway)
        server = gateway._callback_server.server_socket  # noqa: SLF001 - Py4J's
        if server is not None:  # it was not shut down
            with suppress(OSError):  # it has just been: the next call to the JVM says so
                server.listen()
