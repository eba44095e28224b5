"""The end of a JVM that this process started."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from threading import Thread

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

from framework.engine.jvm.gateway import shut_down_connections
from framework.session.jvm_process import Jvm

# It accepts connections, opens one to call Python, and keeps all of them open until its standard input ends.
_JVM = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
call = socket.create_connection(("127.0.0.1", int(sys.stdin.readline())))
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_jvm_ends_while_a_connection_for_its_calls_is_open() -> None:
    """A thread waits for calls in a connection that the JVM does not close: the end does not wait for that thread."""
    process = subprocess.Popen([sys.executable, "-c", _JVM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as said:
        gateway = called(JavaParameters(port=int(said.readline())))
        server = gateway._callback_server
        process.stdin.write(b"%d\n" % server.server_socket.getsockname()[1])
        process.stdin.flush()
        assert said.readline() == b"connected\n"
        while not server.connections:  # its thread accepts the connection
            pass
        is_over = has_ended(Jvm(process=process, gateway=gateway, said=None).end)
    process.kill()
    assert is_over
    assert process.wait() == 0


def test_a_connection_that_the_jvm_opens_at_the_end_is_not_read() -> None:
    """What calls after a command has begun to give its session back gets no thread, for which the end would wait."""
    gateway = called(JavaParameters())
    server = gateway._callback_server
    with socket.create_connection(server.server_socket.getsockname()) as first:
        while not server.connections:
            pass
        shut_down_connections(gateway)
        assert first.recv(1) == b""
    with socket.create_connection(server.server_socket.getsockname()):
        while not server.connections and server.thread.is_alive():
            pass
        assert has_ended(gateway.shutdown_callback_server)


def called(parameters: JavaParameters) -> ClientServer:
    """A gateway that a JVM can call."""
    python = PythonParameters(port=0, daemonize=True, daemonize_connections=True)
    gateway = ClientServer(java_parameters=parameters, python_parameters=python)
    gateway._callback_server.server_socket.listen()
    return gateway


def has_ended(work: Callable[[], object]) -> bool:
    """Whether work ends, which waits for ever if it is wrong."""
    working = Thread(target=work, daemon=True)
    working.start()
    working.join(10)
    return not working.is_alive()
