"""A command's use of the session server of its folder."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from framework.engine.jvm.gateway import forget_session, is_active_context, session_of_jvm
from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.session.jvm_process import connect
from framework.session.keeper_client.identity import SessionIdentity
from framework.session.keeper_client.login import Login
from framework.session.keeper_client.protocol import Connection, Message, claimant, make_private, socket_path

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "SLUICE_SESSION"
"""`off`: a command starts Spark itself, as `--cold` does."""

_SERVER = "framework.session.keeper.process"
_ANSWER_SECONDS, _STOP_SECONDS, _START_SECONDS, _POLL_SECONDS = 5.0, 40.0, 300.0, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a command could not use the ready session, as text for users."""

    reason: str


class Attachment:
    """This process as the user of a session server.

    Args:
        connection: the connection to the server; while it is open, no other process uses the JVM.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._process = os.getpid()
        self._asking = threading.Lock()
        self._has_ended = False

    def open(self, gateway: Mapping[str, Any]) -> SparkSession:
        """Return a new session in the server's JVM."""
        return session_of_jvm(connect(gateway["port"], gateway["secret"]))

    def hold(self, path: str, descriptor: int) -> None:
        """Let the server hold a lock, until `release` or until the work of this process has stopped.

        Raises:
            OperationError: SESSION_LOST.
        """
        self._tell({"hold": path}, descriptor)

    def release(self, path: str) -> None:
        """Let the server release a lock; one that it still has at the end counts as the lock of a killed command."""
        with suppress(OperationError):
            self._tell({"release": path})

    def _tell(self, message: Message, *descriptors: int) -> None:
        with self._asking:
            if self._has_ended or self._connection.ask(message, descriptors) is None:
                self._connection.close()  # the server then stops all work of this process
                self._has_ended = True
                raise OperationError("SESSION_LOST")

    def end(self, *, used: bool = True) -> None:
        """Give the JVM back; the server removes what this process left in it."""
        with self._asking:
            is_ours = not self._has_ended and os.getpid() == self._process
            self._has_ended = True  # no lock is released from here on
        try:
            forget_session()
        finally:
            # Without a goodbye the server would take this process for a killed one.
            if is_ours:
                with suppress(OSError):
                    self._connection.send({"bye": "done" if used else "unused"})
            self._connection.close()

    def abandon_in_child(self) -> None:
        """Close the copy of a forked process, which must not keep the connection of its parent open."""
        self._has_ended = True
        self._connection.close()


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
    connection = _connection(_ANSWER_SECONDS)
    if connection is None:
        return None
    attachment, is_ready = Attachment(connection), False
    try:
        found = _attached(attachment, connection, own_identity)
        is_ready = isinstance(found, SparkSession)
    except (Py4JError, PySparkException, OSError, TypeError, KeyError) as problem:
        first_line = str(problem).partition("\n")[0]
        return Refusal(reason=f"it can't be used: {type(problem).__name__}: {first_line}")
    finally:
        if not is_ready:
            attachment.end(used=False)
    return found


def _attached(
    attachment: Attachment, connection: Connection, own_identity: Callable[[str], SessionIdentity]
) -> SparkSession | Refusal:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    answer = connection.ask({"want": "session", "pid": os.getpid(), "command": command})
    if answer is None or "identity" not in answer:
        user = (answer or {}).get("user")
        return Refusal(reason=f"process {user['pid']} ({user['command']}) uses it" if user else "it does not respond")
    theirs = SessionIdentity.from_json(answer["identity"])
    mine = own_identity(theirs.salt)
    differences = theirs.differences(mine)
    if differences:
        return Refusal(reason=f"it was started with {', '.join(differences)}")
    spark = attachment.open(answer["gateway"])
    fixed = _apply(spark, theirs.changed_settings(mine))
    if fixed:
        return Refusal(reason=f"it was started with other settings that only a start can set ({', '.join(fixed)})")
    _current.append(attachment)
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
    return bool(_current) and is_active_context(spark)


def detach() -> None:
    """Give the session back, if this process uses one."""
    while _current:
        _current.pop().end()


def _detach_child() -> None:
    while _current:
        _current.pop().abandon_in_child()


atexit.register(detach)
os.register_at_fork(after_in_child=_detach_child)


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
    """Return the status of this folder's session server; None if there is none.

    Raises:
        OperationError: SESSION_NOT_RESPONDING.
    """
    return _ask("status", _ANSWER_SECONDS)


def stop_server(clock: Clock) -> Message | None:
    """Stop this folder's session server, and wait for its end.

    Returns:
        Its last status; None if there is none.

    Raises:
        OperationError: SESSION_IN_USE, SESSION_NOT_RESPONDING.
    """
    status = _ask("stop", _STOP_SECONDS)
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
    *,
    master: str,
    spark_conf: Mapping[str, str],
    formats: tuple[str, ...],
    idle_seconds: float,
    login: Login,
    clock: Clock,
) -> Message:
    """Start a session server for this folder, and wait until it, or the one of another process, is ready.

    Args:
        master: URL of the Spark master.
        spark_conf: the settings of the pipeline.
        formats: formats whose packages the session gets.
        idle_seconds: how long it waits for a command.
        login: the login that it ends with.
        clock: the clock.

    Returns:
        Its status.

    Raises:
        OperationError: SESSION_NOT_STARTED.
    """
    options = {
        "master": master,
        "spark_conf": dict(spark_conf),
        "formats": formats,
        "idle_seconds": idle_seconds,
        "login": asdict(login),
    }
    path = socket_path(Path.cwd())
    try:
        make_private(path.parent)
    except OSError as problem:
        raise OperationError("SESSION_NOT_STARTED", output=problem, path=path.parent) from problem
    log = path.with_suffix(".log")
    # Settings may be secret, so they are not arguments, which other users see.
    with tempfile.TemporaryFile("w+") as given, log.open("wb") as output:
        json.dump(options, given)
        given.flush()
        process = subprocess.Popen(  # noqa: S603 - this Python, our own module
            [sys.executable, "-m", _SERVER],
            stdin=given,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = clock.monotonic() + _START_SECONDS
    while (process.poll() is None or claimant(path) is not None) and clock.monotonic() < deadline:
        with suppress(OperationError):  # one that is ready may be busy
            status = _ask("status", _ANSWER_SECONDS)
            if status is not None:
                return status
        clock.sleep(_POLL_SECONDS)
    process.kill()
    words = log.read_text("utf-8", errors="replace").strip().splitlines()[-3:]
    raise OperationError("SESSION_NOT_STARTED", output=" / ".join(words) or "none", path=log)


def _ask(want: str, timeout_seconds: float) -> Message | None:
    connection = _connection(timeout_seconds)
    if connection is None:
        return None
    try:
        connection.send({"want": want})
        received = connection.receive()
    except TimeoutError as late:
        pid = claimant(socket_path(Path.cwd())) or "unknown"
        raise OperationError("SESSION_NOT_RESPONDING", pid=pid, seconds=round(timeout_seconds)) from late
    except (OSError, ValueError, TypeError):
        return None  # it ends
    finally:
        connection.close()
    return None if received is None else received[0]


def _connection(timeout_seconds: float) -> Connection | None:
    """Connect to the server of the working directory; None if there is none, or no such directory any more."""
    try:
        path = socket_path(Path.cwd())
    except OSError:
        return None
    return Connection.to(path, timeout_seconds)
