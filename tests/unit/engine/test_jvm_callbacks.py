"""The JVM can call Python at once."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import CallbackServer, CallbackServerParameters
from pyspark import SparkContext

from framework.engine.jvm.callbacks import accept_callbacks


class LateServer(CallbackServer):  # type: ignore[misc]  # Py4J has no types
    """Py4J's server, whose thread does not run yet, as on a busy machine."""

    ended = threading.Event()

    def run(self) -> None:
        """Wait, and do nothing."""
        self.ended.wait()


def test_a_connection_is_accepted_before_the_thread_of_the_server_runs(swap: pytest.MonkeyPatch) -> None:
    """The port is open when the call returns, also if the server was started by another call."""
    parameters = CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True)
    server: Any = LateServer({}, None, callback_server_parameters=parameters)
    swap.setattr(SparkContext, "_gateway", SimpleNamespace(_callback_server=server))
    server.start()
    try:
        for _ in range(2):
            accept_callbacks()
            socket.create_connection(server.server_socket.getsockname(), timeout=60).close()
    finally:
        server.ended.set()
        server.shutdown()
    accept_callbacks()  # of a JVM that has ended
