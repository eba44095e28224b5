"""The process that keeps a JVM ready: `python -m framework.session.server.process`, started by `sluice session start`.

One command at a time uses the JVM, through a gateway of its own; a second one is told that the session is in use. The
command holds a connection to this process while it uses the JVM. If the connection ends without a word, the command
was killed: then the JVM is killed too, before this process closes the locks of the command, and a new one starts. So
no stream of a killed update runs beside the next update.

The process ends after idle time, with the JVM, with the login that started it, or when its socket was deleted.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.session.jvm_process import Jvm
from framework.session.launching import Launch, launch_directly
from framework.session.server.cleaning import Baseline, kill_python_workers
from framework.session.server.identity import SessionIdentity
from framework.session.server.login import Login
from framework.session.server.protocol import Connection, Message, listening, socket_path
from framework.session.settings import SessionRequest
from framework.session.spark_session import identity_of, open_session

IDLE_SECONDS = 1800.0
_POLL_SECONDS = 5.0
_ANSWER_SECONDS = 2.0
_SALT_BYTES = 16


class _User:
    """The command that uses the JVM.

    Args:
        connection: its connection.
        pid: its process.
        command: its command line.
    """

    def __init__(self, connection: Connection, pid: int, command: str) -> None:
        self.connection = connection
        self.pid = pid
        self.command = command
        self._locks: dict[str, int] = {}

    def hold(self, path: str, descriptor: int) -> None:
        """Keep a lock of the command."""
        self.release(path)
        self._locks[path] = descriptor

    def release(self, path: str) -> None:
        """Close the descriptor of a lock."""
        descriptor = self._locks.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close all locks and the connection."""
        for path in tuple(self._locks):
            self.release(path)
        self.connection.close()


class SessionServer:
    """Serves one JVM to one command at a time.

    Args:
        jvm: the JVM.
        identity: what it was started with.
        baseline: its state without a command.
        login: the login that it ends with.
        clock: the clock of the idle time.
        idle_seconds: the time without a command after which the session ends.
    """

    def __init__(
        self,
        jvm: Jvm,
        identity: SessionIdentity,
        baseline: Baseline,
        *,
        login: Login,
        clock: Clock,
        idle_seconds: float,
    ) -> None:
        self._jvm = jvm
        self._identity = identity
        self._baseline = baseline
        self._login = login
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._started = timestamp_text(clock.now())
        self._user: _User | None = None
        self._used_at = clock.monotonic()
        self._commands = 0
        self._has_garbage = False
        self._is_stopped = False

    def serve(self, server: socket.socket, path: Path) -> bool:
        """Serve commands until the session ends.

        Returns:
            Whether a new JVM must be started, because a command was killed or left work behind.
        """
        inode = path.stat().st_ino
        with selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ)
            while not self._is_over(path, inode):
                ready = selector.select(_POLL_SECONDS)
                if not ready and self._user is None and self._has_garbage:
                    self._has_garbage = False
                    self._baseline.collect_garbage()
                for key, _ in ready:
                    if key.fileobj is server:
                        self._accept(server, selector)
                    elif not self._hear(selector):
                        return True
        return False

    def _is_over(self, path: Path, inode: int) -> bool:
        if self._is_stopped or not self._jvm.alive or self._login.has_ended():
            return True
        with suppress(OSError):
            idle = self._user is None and self._clock.monotonic() - self._used_at > self._idle_seconds
            return idle or path.stat().st_ino != inode
        return True

    def _accept(self, server: socket.socket, selector: selectors.BaseSelector) -> None:
        """Answer the first message of a connection; one that gets the session stays open."""
        peer, _ = server.accept()
        peer.settimeout(_ANSWER_SECONDS)
        connection = Connection(peer)
        try:
            received = connection.receive()
            message = {} if received is None else received[0]
            connection.send(self._answer(message, connection))
        except (OSError, ValueError):
            connection.close()
            if self._user is not None and self._user.connection is connection:
                self._user = None
            return
        if self._user is not None and self._user.connection is connection:
            selector.register(connection, selectors.EVENT_READ)
        else:
            connection.close()

    def _answer(self, message: Message, connection: Connection) -> Mapping[str, Any]:
        want = message.get("want")
        if want == "session" and self._user is None:
            self._user = _User(connection, int(message["pid"]), str(message["command"]))
            parameters: Any = self._jvm.gateway.gateway_parameters
            gateway = {"port": parameters.port, "secret": parameters.auth_token}
            return {"identity": self._identity.to_json(), "gateway": gateway}
        if want == "stop" and self._user is None:
            self._is_stopped = True
        return self._status()

    def _status(self) -> Mapping[str, Any]:
        user = None if self._user is None else {"pid": self._user.pid, "command": self._user.command}
        return {
            "pid": os.getpid(),
            "jvm": self._jvm.process.pid,
            "folder": self._identity.folder,
            "java": self._identity.java,
            "since": self._started,
            "commands": self._commands,
            "idle_seconds": 0 if user else round(self._clock.monotonic() - self._used_at),
            "ends_after_idle_seconds": self._idle_seconds,
            "user": user,
        }

    def _hear(self, selector: selectors.BaseSelector) -> bool:
        """Read a message of the command; False if a new JVM must be started."""
        user = self._user
        assert user is not None
        try:
            received = user.connection.receive()
        except (OSError, ValueError):
            received = None
        if received is not None and "bye" not in received[0]:
            message, descriptors = received
            self._keep(user, message, descriptors)
            return True
        selector.unregister(user.connection)
        self._user, self._used_at = None, self._clock.monotonic()
        if received is not None and received[0]["bye"] == "unused":
            user.close()
            return True
        self._commands += 1
        self._has_garbage = True
        if received is not None and self._restore():
            user.close()
            return True
        self.kill_jvm()
        user.close()
        return False

    def _keep(self, user: _User, message: Message, descriptors: list[int]) -> None:
        """Keep or release a lock of the command."""
        if "hold" in message and descriptors:
            user.hold(str(message["hold"]), descriptors[0])
        elif "release" in message:
            user.release(str(message["release"]))
        with suppress(OSError):
            user.connection.send({"done": True})

    def _restore(self) -> bool:
        kill_python_workers(self._jvm.process.pid)
        try:
            return self._baseline.restore()
        except (Py4JError, PySparkException, OSError):  # a JVM that can't be cleaned is replaced
            traceback.print_exc()
            return False

    def kill_jvm(self) -> None:
        """Kill the JVM with its Python workers, and wait for its end."""
        kill_python_workers(self._jvm.process.pid)
        self._jvm.process.kill()
        self._jvm.process.wait()


def main(arguments: list[str]) -> None:
    """Start a JVM and serve it: `{"master": ..., "spark_conf": {...}, "idle_seconds": ..., "login": {...}}`."""
    options = json.loads(arguments[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = socket_path(Path.cwd())
    with listening(path) as server:
        launch, baseline, identity = _start(options)
        served = SessionServer(
            launch.jvm,
            identity,
            baseline,
            login=Login(**options["login"]),
            clock=SystemClock(),
            idle_seconds=options["idle_seconds"],
        )
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            again = served.serve(server, path)
        finally:
            launch.jvm.end()
            if launch.warehouse is not None:
                launch.warehouse.cleanup()
    if again:
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *arguments])  # noqa: S606 - this program again


def _start(options: Mapping[str, Any]) -> tuple[Launch, Baseline, SessionIdentity]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    request = SessionRequest(app_name="sluice session", master=options["master"], spark_conf=options["spark_conf"])
    # Before the start of Spark, because PySpark sets environment variables.
    identity = identity_of(request, os.urandom(_SALT_BYTES).hex())
    launch = launch_directly(request)
    return launch, Baseline(open_session(launch), SystemClock()), identity


if __name__ == "__main__":
    main(sys.argv[1:])
