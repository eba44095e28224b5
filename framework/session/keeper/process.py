"""The process that keeps a JVM ready: `python -m framework.session.keeper.process`, started by `sluice session start`.

One command at a time uses the JVM, through a gateway of its own; a second one is told that the session is in use. The
command holds a connection to this process while it uses the JVM. If the connection ends without a goodbye, the command
was killed: then the JVM is killed too, before this process closes the locks of the command, and a new one starts. So
no stream of a killed update runs beside the next update.

The process ends after idle time, with the JVM, with the login that started it, or when its socket or its
folder was deleted.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from framework.engine.jvm.baseline import Baseline, kill_python_workers
from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.secrets.known_secrets import remember_settings
from framework.foundation.secrets.masked_stream import masked
from framework.session.jvm_process import Jvm
from framework.session.keeper_client.identity import SessionIdentity
from framework.session.keeper_client.login import Login
from framework.session.keeper_client.protocol import Connection, Message, claimed, listening, socket_path
from framework.session.launching import Launch, launch_directly
from framework.session.settings import SessionRequest
from framework.session.spark_session import identity_of, open_session

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 5.0
_ANSWER_SECONDS = 1.0
_CALL_SECONDS = 30
_SALT_BYTES = 16
_BROKEN = (Py4JError, PySparkException, OSError, AttributeError, TypeError)


@contextmanager
def _in_time() -> Iterator[None]:
    """Raise TimeoutError if the calls of the block to the JVM take too long: it may be stopped or out of memory."""

    def expire(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(_CALL_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class _User:
    """The command that uses the JVM.

    Args:
        connection: its connection.
        gateway: the server of its gateway in the JVM.
        pid: its process.
        command: its command line.
    """

    def __init__(self, connection: Connection, gateway: Any, pid: int, command: str) -> None:
        self.connection = connection
        self.gateway = gateway
        self.pid = pid
        self.command = command
        self._locks: dict[str, int] = {}

    @property
    def holds_locks(self) -> bool:
        """Whether an update of the command still runs."""
        return bool(self._locks)

    def hold(self, path: str, descriptors: list[int]) -> None:
        """Keep a lock of the command."""
        self.release(path)
        for unwanted in descriptors[1:]:
            os.close(unwanted)
        os.set_inheritable(descriptors[0], False)  # noqa: FBT003 - the signature
        self._locks[path] = descriptors[0]

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


def _folder_is_gone() -> bool:
    """Return whether the project folder, which is the working folder, was deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


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
                if not ready and self._user is None and self._has_garbage and not self._collect_garbage():
                    return True
                for key, _ in ready:
                    if key.fileobj is server:
                        self._accept(server, selector)
                    elif not self._hear(selector):
                        return True
        return False

    def end(self) -> None:
        """End the JVM, at once if an update still runs in it, and then close the locks of the update."""
        if self._user is not None:
            self._kill_jvm()
            self._user.close()
        self._jvm.end()

    def _is_over(self, path: Path, inode: int) -> bool:
        if self._user is not None or not self._jvm.alive:
            return not self._jvm.alive
        if self._is_stopped or self._login.has_ended() or _folder_is_gone():
            return True
        with suppress(OSError):
            return self._clock.monotonic() - self._used_at > self._idle_seconds or path.stat().st_ino != inode
        return True

    def _accept(self, server: socket.socket, selector: selectors.BaseSelector) -> None:
        """Answer the first message of a connection; one that gets the session stays open."""
        try:
            peer, _ = server.accept()
        except OSError:
            return
        peer.settimeout(_ANSWER_SECONDS)
        connection = Connection(peer)
        try:
            received = connection.receive()
            connection.send(self._answer({} if received is None else received[0], connection))
        except (*_BROKEN, ValueError, KeyError, TypeError):
            traceback.print_exc()
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
        if want == "session" and self._user is None and self._jvm.alive:
            pid, command = int(message["pid"]), str(message["command"])
            with _in_time():
                gateway = self._baseline.start_gateway()
                address = {"port": gateway.getListeningPort(), "secret": gateway.secret()}
            self._user = _User(connection, gateway, pid, command)
            return {"identity": self._identity.to_json(), "gateway": address, "jvm": self._jvm.process.pid}
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
        except (OSError, ValueError, TypeError):
            received = None
        if received is not None and "bye" not in received[0]:
            self._keep(user, *received)
            return True
        selector.unregister(user.connection)
        if received is None:
            remains: str | None = "it was killed"
        else:
            remains = "it holds a lock" if user.holds_locks else self._restore(user)
        if remains is not None:
            sys.stderr.write(f"A new JVM starts after {user.command} (process {user.pid}): {remains}.\n")
            self._kill_jvm()
        user.close()
        self._user, self._used_at, self._has_garbage = None, self._clock.monotonic(), True
        self._commands += received is None or received[0]["bye"] != "unused"
        return remains is None

    def _keep(self, user: _User, message: Message, descriptors: list[int]) -> None:
        """Keep or release a lock of the command."""
        if "hold" in message and descriptors:
            user.hold(str(message["hold"]), descriptors)
        elif "release" in message:
            user.release(str(message["release"]))
        with suppress(OSError):
            user.connection.send({"done": True})

    def _restore(self, user: _User) -> str | None:
        """Remove what a command left; return why the JVM must be replaced, or None."""
        try:
            kill_python_workers(self._jvm.process.pid)
            with _in_time():
                user.gateway.shutdown()
                return self._baseline.restore()
        except _BROKEN:
            traceback.print_exc()
            return "cleaning failed"

    def _collect_garbage(self) -> bool:
        self._has_garbage = False
        try:
            with _in_time():
                self._baseline.collect_garbage()
        except _BROKEN:
            self._kill_jvm()
            return False
        return True

    def _kill_jvm(self) -> None:
        """Kill the JVM with its Python workers, and wait for its end."""
        kill_python_workers(self._jvm.process.pid)
        self._jvm.process.kill()
        self._jvm.process.wait()


def main() -> None:
    """Start a JVM and serve it; the options are JSON on standard input, which other users can't read."""
    sys.stderr = masked(sys.stderr)  # the log of the session
    sys.stdin.seek(0)
    options = json.load(sys.stdin)
    remember_settings(options["spark_conf"].items())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in _ENDING:
        signal.signal(number, lambda *_: sys.exit(0))
    path = socket_path(Path.cwd())
    with claimed(path):
        launch, baseline, identity = _start(options)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # again: PySpark's start has set a handler of its own
        served = SessionServer(
            launch.jvm,
            identity,
            baseline,
            login=Login(**options["login"]),
            clock=SystemClock(),
            idle_seconds=options["idle_seconds"],
        )
        try:
            with listening(path) as server:
                again = served.serve(server, path)
        finally:
            for number in _ENDING:
                signal.signal(number, signal.SIG_IGN)
            served.end()
            launch.temporary.cleanup()
    if again:
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name])  # noqa: S606 - this program again


def _start(options: Mapping[str, Any]) -> tuple[Launch, Baseline, SessionIdentity]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    request = SessionRequest(
        app_name="sluice session",
        master=options["master"],
        spark_conf=options["spark_conf"],
        formats=tuple(options["formats"]),
    )
    identity = identity_of(request, os.urandom(_SALT_BYTES).hex())
    launch = launch_directly(request)
    return launch, Baseline(open_session(launch), SystemClock()), identity


if __name__ == "__main__":
    main()
