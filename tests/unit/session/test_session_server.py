"""The session server's identity, socket and login, without a JVM."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.session.keeper import process
from framework.session.keeper.process import SessionServer
from framework.session.keeper_client import client
from framework.session.keeper_client.identity import SessionIdentity
from framework.session.keeper_client.login import Login
from framework.session.keeper_client.protocol import (
    Connection,
    claimant,
    claimed,
    is_private,
    listening,
    make_private,
    socket_path,
)
from framework.testing.manual_clock import ManualClock

IDENTITY = SessionIdentity(
    folder="/project",
    inode="1:2",
    versions="1.0 4.2.0",
    python="/usr/bin/python 3.12",
    java="/usr/bin/java 17",
    jars=("/delta.jar 1 2",),
    settings={"spark.master": "local[2]", "spark.driver.memory": "2g"},
    salt="salt",
    environment={"AWS_PROFILE": "a digest", "HOME": "another"},
)


@pytest.fixture
def private() -> Iterator[Path]:
    """A private folder with a short path, because that of a socket is limited."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (replace(IDENTITY, folder="/elsewhere"), "another working directory"),
        (replace(IDENTITY, inode="1:3"), "another working directory"),
        (replace(IDENTITY, versions="1.1 4.2.0"), "another version of Sluice or PySpark"),
        (replace(IDENTITY, python="/usr/bin/python 3.13"), "another Python"),
        (replace(IDENTITY, java="/usr/bin/java 21"), "another Java"),
        (replace(IDENTITY, jars=("/delta.jar 1 3",)), "other jars"),
        (
            replace(IDENTITY, environment={"AWS_PROFILE": "changed", "ADDED": "new"}),
            "other values of environment variables (ADDED, AWS_PROFILE, HOME)",
        ),
    ],
)
def test_each_difference_is_named(other: SessionIdentity, difference: str) -> None:
    """Changed, added and removed environment variables are named; their values are not."""
    assert IDENTITY.differences(other) == (difference,)


def test_equal_identities_differ_in_nothing() -> None:
    """An identity that went through JSON is equal; settings are compared apart from it."""
    other = SessionIdentity.from_json({**IDENTITY.to_json(), "jars": list(IDENTITY.jars)})
    assert other == IDENTITY
    assert IDENTITY.differences(replace(IDENTITY, settings={})) == ()


def test_settings_that_are_added_changed_or_missing_are_found() -> None:
    """A setting that the other one does not have is None."""
    wanted = replace(IDENTITY, settings={"spark.master": "local[4]", "spark.sql.ansi.enabled": "false"})
    assert IDENTITY.changed_settings(wanted) == {
        "spark.master": "local[4]",
        "spark.sql.ansi.enabled": "false",
        "spark.driver.memory": None,
    }


def test_digests_reveal_no_value_and_differ_with_the_salt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No value of a variable is in the identity; variables of the terminal and of Sluice are not compared."""
    monkeypatch.setenv("A_PASSWORD", "not-for-eyes")
    monkeypatch.setenv("TERM", "a-terminal")
    monkeypatch.setenv("SLUICE_SESSION", "off")
    jar = tmp_path / "delta.jar"
    jar.touch()
    one, same, other = (
        SessionIdentity.of_this_process(java="java", jars=(str(jar),), settings={}, salt=salt)
        for salt in ("salt", "salt", "pepper")
    )
    assert one == same
    assert "not-for-eyes" not in str(one.to_json())
    assert one.environment["A_PASSWORD"] != other.environment["A_PASSWORD"]
    assert {"TERM", "SLUICE_SESSION"}.isdisjoint(one.environment)


def test_only_an_own_folder_with_mode_700_is_private(private: Path) -> None:
    """A folder that others can open, a symbolic link to a private one, and a missing one are not private."""
    link = private / "link"
    inner = private / "inner"
    inner.mkdir(mode=0o700)
    link.symlink_to(inner)
    assert is_private(inner)
    assert not is_private(link)
    assert not is_private(private / "missing")
    inner.chmod(0o755)
    assert not is_private(inner)


def test_nobody_listens_or_connects_in_a_folder_of_others(private: Path) -> None:
    """The server refuses a folder that is not private, and a command does not look into it."""
    path = private / "open" / "a.sock"
    with claimed(path), listening(path):
        assert Connection.to(path, 1) is not None
        path.parent.chmod(0o755)
        assert Connection.to(path, 1) is None
    with pytest.raises(PermissionError, match="must belong to you, with the mode 700"), claimed(path):
        pass


def test_two_servers_cannot_listen_at_one_path(private: Path) -> None:
    """The first one keeps its socket, which is gone after it; then another one can listen."""
    path = private / "a.sock"
    with claimed(path), listening(path):
        inode = path.stat().st_ino
        assert claimant(path) == os.getpid()
        with pytest.raises(BlockingIOError), claimed(path):
            pass
        assert path.stat().st_ino == inode
    assert not path.exists()
    with claimed(path), listening(path):
        assert path.exists()


@pytest.fixture
def of_folder(private: Path, swap: pytest.MonkeyPatch) -> Path:
    """The path of the socket of the working folder."""
    swap.setenv("XDG_RUNTIME_DIR", str(private))
    swap.chdir(private)
    make_private(socket_path(private).parent)
    return socket_path(private)


def test_a_server_that_does_not_answer_is_not_taken_for_none(of_folder: Path, swap: pytest.MonkeyPatch) -> None:
    """One that was stopped, or that is busy: `status`, `stop` and `start` name its process."""
    swap.setattr(client, "_ANSWER_SECONDS", 0.05)
    assert client.session_status() is None
    with claimed(of_folder), listening(of_folder), pytest.raises(OperationError) as caught:
        client.session_status()
    assert (caught.value.condition, caught.value.fields["pid"]) == ("SESSION_NOT_RESPONDING", os.getpid())
    assert claimant(of_folder) == os.getpid()
    of_folder.with_suffix(".lock").write_text(f"{os.getpid()} 1")
    assert claimant(of_folder) is None


def test_a_start_beside_another_one_waits_for_its_session(of_folder: Path, swap: pytest.MonkeyPatch) -> None:
    """The server of the second start ends at once; the session of the first one, when it is ready, serves both."""
    swap.setattr(client, "_SERVER", "this")  # a module of Python that prints and ends
    started, log = [], of_folder.with_suffix(".log")

    def start() -> None:
        options: dict[str, Any] = {
            "master": "local",
            "spark_conf": {},
            "formats": (),
            "idle_seconds": 1,
            "login": Login(),
        }
        started.append(client.start_server(**options, clock=SystemClock()))

    with claimed(of_folder):
        second = threading.Thread(target=start)
        second.start()
        while second.is_alive() and (not log.exists() or "Namespaces" not in log.read_text()):
            SystemClock().sleep(0.01)
        SystemClock().sleep(0.3)
        with listening(of_folder) as server:
            server.settimeout(10)
            asking = Connection(server.accept()[0])
            assert asking.receive() == ({"want": "status"}, [])
            asking.send({"pid": 7})
            second.join(10)
    assert started == [{"pid": 7}]


def test_a_message_carries_the_lock_that_outlives_its_sender(private: Path) -> None:
    """A descriptor that was sent is open in the receiver, after the sender has closed its own."""
    path = private / "a.sock"
    with listening(path) as server:
        sender = Connection.to(path, 10)
        assert sender is not None
        receiver = Connection(server.accept()[0])
        with (private / "lock").open("w+") as lock:
            lock.write("held")
            lock.flush()
            sender.send({"hold": "lock"}, [lock.fileno()])
        sender.close()
        received = receiver.receive()
        assert received is not None
        message, (descriptor,) = received
        assert message == {"hold": "lock"}
        assert os.pread(descriptor, 10, 0) == b"held"
        os.close(descriptor)
        assert receiver.receive() is None
        receiver.close()


def test_the_socket_belongs_to_the_folder_itself(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder has one socket by whichever path; another folder has another, in the folder of the login."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private))
    folder = private / "a-project"
    folder.mkdir()
    link = private / "link"
    link.symlink_to(folder)
    assert socket_path(folder) == socket_path(link) != socket_path(private)
    assert socket_path(folder).parent == private / f"sluice-{os.getuid()}"


def test_a_login_ends_with_its_process() -> None:
    """Also before its parent has read its exit code; a login without a process never ends."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        login = Login.of(process.pid)
        assert login.pid == process.pid
        assert not login.has_ended()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert login.has_ended()
    assert login.has_ended()
    assert not Login().has_ended()


def test_another_process_with_the_number_of_the_login_is_not_the_login() -> None:
    """The time of the start belongs to the login."""
    assert Login(pid=os.getpid(), started="1").has_ended()


class UnusedJvm:
    """A JVM that no command uses; it ends after some looks at it, so that a server that goes on ends too.

    Args:
        meanwhile: what happens before the first look.
    """

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile
        self._looks = 0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        if self._looks == 0:
            self._meanwhile()
        self._looks += 1
        return self._looks < 3


@pytest.mark.parametrize("end", ["none", "idle time", "login", "folder", "socket"])
def test_a_session_ends_with_its_idle_time_its_login_its_folder_and_its_socket(
    private: Path, swap: pytest.MonkeyPatch, end: str
) -> None:
    """A server without a command ends as soon as one of them is over, and starts no other JVM."""
    swap.setattr(process, "_POLL_SECONDS", 0.01)
    clock, path, folder = ManualClock(), private / "a.sock", private / "project"
    folder.mkdir()
    swap.chdir(folder)
    ends = {"idle time": lambda: clock.sleep(61), "folder": folder.rmdir, "socket": path.unlink}
    jvm: Any = UnusedJvm(ends.get(end, lambda: None))
    baseline: Any = None
    login = Login(pid=os.getpid(), started="1") if end == "login" else Login()
    served = SessionServer(jvm, IDENTITY, baseline, login=login, clock=clock, idle_seconds=60)
    with listening(path) as server:
        assert not served.serve(server, path)
    assert jvm.alive is (end != "none")
