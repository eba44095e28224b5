"""A command's use of the session server of its folder."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import quiet_shutdown
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.session.jvm_process import connect, forget_gateway
from framework.session.server.identity import SessionIdentity
from framework.session.server.login import Login
from framework.session.server.protocol import Connection, Message, runtime_folder, socket_path

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "SLUICE_SESSION"
"""`off`: a command starts Spark itself, as `--cold` does."""

_SERVER = "framework.session.server.process"
_ANSWER_SECONDS, _START_SECONDS, _POLL_SECONDS = 5.0, 300.0, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a command could not use the session that is ready, in words for users."""

    reason: str


class Attachment:
    """This process as the user of a session server.

    Args:
        connection: the connection to the server; while it is open, no other process uses the JVM.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._context: SparkContext | None = None

    def open(self, gateway: Mapping[str, Any]) -> SparkSession:
        """Return a new session in the server's JVM."""
        connected: Any = connect(gateway["port"], gateway["secret"])
        SparkContext._gateway, SparkContext._jvm = connected, connected.jvm
        shared = connected.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
        java_context = connected.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(shared.sparkContext())
        self._context = SparkContext(
            gateway=connected, jsc=java_context, conf=SparkConf(_jvm=connected.jvm, _jconf=java_context.getConf())
        )
        return SparkSession(self._context, shared.newSession())

    def uses(self, gateway: object) -> bool:
        """Return whether a gateway is the one to the server's JVM."""
        return self._context is not None and self._context._gateway is gateway

    def hold(self, path: str, descriptor: int) -> None:
        """Let the server hold a lock, until `release` or until the work of this process has stopped.

        Raises:
            OperationError: SESSION_LOST.
        """
        self._tell({"hold": path}, descriptor)

    def release(self, path: str) -> None:
        """Let the server release a lock."""
        with suppress(OperationError):
            self._tell({"release": path})

    def _tell(self, message: Message, *descriptors: int) -> None:
        if self._connection.ask(message, descriptors) is None:
            raise OperationError("SESSION_LOST")

    def end(self, *, used: bool = True) -> None:
        """Give the JVM back; the server removes what this process left in it."""
        if self._context is not None:
            _forget(self._context)
            self._context = None
        with suppress(OSError):
            self._connection.send({"bye": "done" if used else "unused"})
        self._connection.close()


def _forget(context: Any) -> None:
    """Remove the session from PySpark without stopping Spark in the JVM."""
    gateway = context._gateway
    with suppress(Exception):  # the JVM may have ended
        context._accumulatorServer.shutdown()  # noqa: SLF001 - PySpark's
        _shut_down_connections(gateway)
        gateway.close(keep_callback_server=False, close_callback_server_connections=True)
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    forget_gateway()


def _shut_down_connections(gateway: Any) -> None:
    """End the reads of other threads: Py4J closes a stream before its socket, and waits for ever for its reader."""
    callbacks = vars(gateway).get("_callback_server")
    calls = gateway._gateway_client.deque  # noqa: SLF001 - Py4J's
    for connection in (*calls, *(callbacks.connections if callbacks else ())):
        if connection.socket is not None:
            quiet_shutdown(connection.socket)


# The use of a session by this process; at most one, because Spark has one context per process.
_current: list[Attachment] = []


def attach(own_identity: Callable[[str], SessionIdentity]) -> SparkSession | Refusal | None:
    """Return a session in the JVM that is ready for this folder.

    Args:
        own_identity: returns the identity of the session that this process would start, for a salt.

    Returns:
        The session; why it can't be used; or None if there is none.
    """
    if os.environ.get(VARIABLE) == "off":
        return None
    connection = Connection.to(socket_path(Path.cwd()), _ANSWER_SECONDS)
    if connection is None:
        return None
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    answer = connection.ask({"want": "session", "pid": os.getpid(), "command": command})
    if answer is None or "identity" not in answer:
        connection.close()
        user = (answer or {}).get("user")
        return Refusal(reason=f"process {user['pid']} ({user['command']}) uses it" if user else "it does not respond")
    theirs = SessionIdentity.from_json(answer["identity"])
    mine = own_identity(theirs.salt)
    attachment = Attachment(connection)
    differences = theirs.differences(mine)
    if differences:
        attachment.end(used=False)
        return Refusal(reason=f"it was started with {', '.join(differences)}")
    spark = attachment.open(answer["gateway"])
    fixed = _apply(spark, theirs.changed_settings(mine))
    if fixed:
        attachment.end()
        return Refusal(reason=f"it was started with other settings that only a start can set ({', '.join(fixed)})")
    _current.append(attachment)
    atexit.register(detach)
    return spark


def _apply(spark: SparkSession, changed: Mapping[str, str | None]) -> list[str]:
    """Set the settings of a session that differ; return those that only a start can set."""
    fixed = sorted(name for name in changed if not spark.conf.isModifiable(name))
    if not fixed:
        for name, value in changed.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
    return fixed


def is_attached(spark: SparkSession) -> bool:
    """Return whether a session is in the JVM of a session server."""
    return bool(_current) and _current[0].uses(spark.sparkContext._gateway)


def detach() -> None:
    """Give the session back, if this process uses one."""
    while _current:
        _current.pop().end()


@contextmanager
def held_by_server(path: Path, descriptor: int) -> Iterator[None]:
    """Let the session server hold a lock too, if this process uses one: a killed process then frees it too early.

    Raises:
        OperationError: SESSION_LOST.
    """
    if not _current:
        yield
        return
    attachment = _current[0]
    attachment.hold(str(path), descriptor)
    try:
        yield
    finally:
        attachment.release(str(path))


def session_status() -> Message | None:
    """Return the status of this folder's session server; None if there is none."""
    return _ask("status")


def stop_server(clock: Clock) -> Message | None:
    """Stop this folder's session server, and wait for its end.

    Returns:
        Its last status; None if there is none.

    Raises:
        OperationError: SESSION_IN_USE.
    """
    status = _ask("stop")
    if status is None:
        return None
    if status["user"] is not None:
        raise OperationError("SESSION_IN_USE", **status["user"])
    path = socket_path(Path.cwd())
    deadline = clock.monotonic() + _START_SECONDS
    while path.exists() and clock.monotonic() < deadline:
        clock.sleep(_POLL_SECONDS)
    return status


def start_server(
    *, master: str, spark_conf: Mapping[str, str], idle_seconds: float, login: Login, clock: Clock
) -> Message:
    """Start a session server for this folder, and wait until it is ready.

    Returns:
        Its status.

    Raises:
        OperationError: SESSION_NOT_STARTED.
    """
    options = {"master": master, "spark_conf": dict(spark_conf), "idle_seconds": idle_seconds, "login": asdict(login)}
    log = _log_file()
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this Python, our own module
            [sys.executable, "-m", _SERVER, json.dumps(options)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    deadline = clock.monotonic() + _START_SECONDS
    while process.poll() is None and clock.monotonic() < deadline:
        status = _ask("status")
        if status is not None:
            return status
        clock.sleep(_POLL_SECONDS)
    process.kill()
    words = log.read_text("utf-8", errors="replace").strip().splitlines()[-3:]
    raise OperationError("SESSION_NOT_STARTED", output=" / ".join(words) or "none", path=log)


def _log_file() -> Path:
    folder = runtime_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return socket_path(Path.cwd()).with_suffix(".log")


def _ask(want: str) -> Message | None:
    connection = Connection.to(socket_path(Path.cwd()), _START_SECONDS if want == "status" else _ANSWER_SECONDS)
    if connection is None:
        return None
    try:
        return connection.ask({"want": want})
    finally:
        connection.close()
