<<<<<<< HEAD
"""The end of a JVM that this process started."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from threading import Thread

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

from framework.session.jvm_process import Jvm
from framework.session.server.client import shut_down_connections

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
=======
"""A JVM that fails while it starts, or whose start is interrupted, is ended: its other threads would go on for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.processes import start_of_process
from framework.session import jvm_process
from framework.session.jvm_options import GatewayCommand
from framework.session.jvm_process import start_local_jvm


class InterruptedClock(SystemClock):
    """A clock whose first wait for a started process is interrupted, as by Ctrl-C."""

    def __init__(self, started: Path) -> None:
        self.started = started

    def sleep(self, seconds: float) -> None:
        """Interrupt, once the process runs."""
        super().sleep(seconds)
        if self.started.exists() and self.started.read_text("utf-8").endswith("\n"):
            raise KeyboardInterrupt


def java(folder: Path, says: str) -> GatewayCommand:
    """A program that writes its number to a file, says something, and does not end."""
    script = f"echo $$ > '{folder}/pid'; echo '{says}' >&2; exec sleep 300"
    return GatewayCommand(options=("/bin/sh", "-c", script))


def has_ended(folder: Path) -> bool:
    """Whether the program has ended."""
    return start_of_process(int((folder / "pid").read_text("utf-8"))) == ""


@pytest.mark.parametrize(
    ("problem", "condition"),
    [("java.io.IOException: No space left on device", "DISK_FULL"), ("a.b.C: no", "SPARK_NOT_STARTED")],
)
def test_a_jvm_whose_main_thread_fails_is_not_waited_for(tmp_path: Path, problem: str, condition: str) -> None:
    """A full temporary folder is named; before, the start waited for three minutes."""
    command = java(tmp_path, f'Exception in thread "main" {problem}')
    with pytest.raises(OperationError) as raised:
        start_local_jvm(command, "/spark", SystemClock(), verbose=False)
    assert (raised.value.condition, problem in raised.value.what) == (condition, True)
    assert has_ended(tmp_path)


def test_an_interrupted_start_leaves_no_jvm(tmp_path: Path) -> None:
    """Whatever the JVM does at that moment."""
    with pytest.raises(KeyboardInterrupt):
        start_local_jvm(java(tmp_path, "starts"), "/spark", InterruptedClock(tmp_path / "pid"), verbose=False)
    assert has_ended(tmp_path)


def test_a_folder_without_space_is_named_before_a_jvm_starts(tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """Such a JVM could not even say what it lacks."""
    swap.setattr(jvm_process, "_LEAST_BYTES", 1 << 62)
    with pytest.raises(OperationError, match="DISK_FULL"):
        start_local_jvm(java(tmp_path, "starts"), "/spark", SystemClock(), verbose=False)
    assert not (tmp_path / "pid").exists()
>>>>>>> w-c
