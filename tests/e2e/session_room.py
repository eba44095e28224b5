"""A project folder with a session server of its own: no other test sees it, and none of its processes outlives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from framework.session.keeper_client.protocol import Connection, socket_path
from framework.views.session import session_json
from tests.support.command_line import SLUICE, environment, result_of

MASTER = ("--master", "local[2]")
REFUSED = "This command started Spark itself. A session is ready, but"
_DEADLINE_SECONDS, _POLL_SECONDS = 300.0, 0.02


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not in {_DEADLINE_SECONDS:.0f} seconds: {what}"
        time.sleep(_POLL_SECONDS)


def runs(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class Room:
    """A folder for projects, and the private folder of its session's socket.

    Args:
        folder: the working directory of the commands; its `lib` is on the path of Python.
        runtime: a folder with a short path, because that of a Unix socket is limited to some 100 characters.
    """

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder = folder
        self._runtime = runtime
        self.variables = {**environment(), "XDG_RUNTIME_DIR": str(runtime)}
        self.variables["PYTHONPATH"] += f"{os.pathsep}{folder / 'lib'}"
        self.variables.pop("SLUICE_SESSION", None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
            self.socket = socket_path(folder)

    def write(self, name: str, text: str) -> Path:
        """Write a file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def project(self, name: str, module: str, **spec: object) -> tuple[str, str]:
        """Write a project with one module, and return the options that select it."""
        libraries = [{"file": {"path": f"{name}.py"}}]
        self.write(f"{name}.py", module)
        self.write(f"{name}.yml", json.dumps({"name": name, "libraries": libraries, **spec}))
        return "--spec", str(self.folder / f"{name}.yml")

    def command(self, command: list[str], folder: Path | None = None, **variables: str) -> Any:
        """Run a command to its end."""
        values = {**self.variables, **variables}
        return subprocess.run(
            command,
            cwd=folder or self.folder,
            env=values,
            check=False,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_SECONDS,
        )

    def sluice(self, *arguments: str, folder: Path | None = None, **variables: str) -> Any:
        """Run a command of Sluice to its end."""
        return self.command([*SLUICE, *arguments], folder, **variables)

    def script(self, source: str) -> Any:
        """Run a program with `spark`, the session of a pipeline, and return the JSON that it prints."""
        head = "import json\nfrom framework import Pipeline\n"
        path = self.write("script.py", head + dedent(source))
        return result_of(self.command([sys.executable, str(path)]))

    def start(self, *arguments: str) -> Any:
        """Start the session if there is none, and return its status."""
        if not self.status()["running"]:
            done = self.sluice("session", "start", *MASTER, *arguments)
            assert done.returncode == 0, done.stderr
        return self.status()

    def status(self) -> Any:
        """Return the status that `sluice session status -o json` prints, without a process for it."""
        connection = Connection.to(self.socket, _DEADLINE_SECONDS)
        if connection is None:
            return session_json(None)
        try:
            return session_json(connection.ask({"want": "status"}))
        finally:
            connection.close()

    def log(self) -> str:
        """Return what the server printed: why it replaced a JVM."""
        path = self.socket.with_suffix(".log")
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def connection(self) -> Connection:
        """Connect to the server."""
        connection = Connection.to(self.socket, _DEADLINE_SECONDS)
        assert connection is not None
        return connection

    def processes(self) -> Iterator[int]:
        """Return the processes that were started with this room's variables."""
        mark = f"XDG_RUNTIME_DIR={self._runtime}\0".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes():
                    yield int(path.parent.name)

    def close(self) -> None:
        """Kill what still runs, and remove the socket's folder."""
        for pid in [*self.processes()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(runs, self.processes())), "the end of the room's processes")
        shutil.rmtree(self._runtime)


@contextmanager
def opened_room(folder: Path) -> Iterator[Room]:
    """A room in a folder, with a socket of its own; at the end no process of it is left."""
    room = Room(folder, Path(tempfile.mkdtemp(prefix="s", dir="/tmp")))
    try:
        yield room
    finally:
        room.close()


@contextmanager
def in_use(room: Room) -> Iterator[None]:
    """Use the room's session in this process, without doing anything with it."""
    connection = room.connection()
    answer = connection.ask({"want": "session", "pid": os.getpid(), "command": "pytest a-test"})
    assert answer is not None
    assert "gateway" in answer
    yield
    connection.send({"bye": "unused"})
    connection.close()
