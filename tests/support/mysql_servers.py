"""Servers of MariaDB and MySQL on loopback for tests, each with a data folder, a port and a socket of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pymysql
from pymysql.connections import Connection

from tests.support.mysql_programs import Programs, empty_data

_START_SECONDS = 60
_LOG = {
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
}
_SMALL = {
    "performance-schema": "OFF",
    "innodb-buffer-pool-size": "64M",
    "innodb-flush-log-at-trx-commit": "2",
    "max-connections": "100",
}
# A later MariaDB makes a certificate at each start, which takes seconds: settings of a test of TLS begin with `ssl`.
_OWN = {
    True: {"innodb-log-file-size": "32M", "ssl": "OFF"},
    False: {"innodb-redo-log-capacity": "32M", "mysqlx": "OFF"},
}


class MysqlServer:
    """A server that logs rows with full metadata; it ends with the `with` block.

    Args:
        programs: which one.
        settings: options beside the defaults, such as {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}.
        folder: where its data is kept; a temporary folder, removed at the end, if omitted.
        server_id: of a replica, another than that of its primary.
        port: that of an earlier server; 0 for a free one.
    """

    def __init__(
        self,
        programs: Programs,
        settings: Mapping[str, str] | None = None,
        *,
        folder: Path | None = None,
        server_id: int = 1,
        port: int = 0,
    ) -> None:
        self.programs = programs
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="sluice-mysql-", dir=_memory()))
        self.port = port or _free_port()
        # A path of a socket has at most 107 characters.
        self.socket = Path(tempfile.gettempdir()) / f"sluice-{uuid.uuid4().hex[:12]}.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = {
            **programs.settings,
            **_SMALL,
            "log-bin": "binlog",
            **_LOG,
            "server-id": str(server_id),
            "bind-address": "127.0.0.1",
            **_OWN[programs.is_mariadb],
            **(settings or {}),
        }

    def __enter__(self) -> Self:
        """Start the server, with an empty data folder if it has none."""
        if not (self.folder / "data").exists():
            shutil.copytree(empty_data(self.programs), self.folder / "data")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the server, and remove a temporary data folder."""
        self.kill()
        self.socket.unlink(missing_ok=True)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB."""
        return self.programs.is_mariadb

    def uri(self, database: str = "", user: str = "root") -> str:
        """Return the connection string of a database."""
        scheme = "mariadb" if self.is_mariadb else "mysql"
        return f"{scheme}://{user}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str | None = None, **options: Any) -> Connection:
        """Return a new connection, which commits each statement unless `autocommit=False` is given."""
        chosen = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True, **options}
        return pymysql.connect(database=database, **chosen)

    def query(self, statement: str, *values: object, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement on a connection of its own, and return its rows."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def start(self) -> None:
        """Start the server on its data, and return when it accepts connections.

        Raises:
            RuntimeError: it ended, with the end of its log.
        """
        options = {
            **self.settings,
            "datadir": str(self.folder / "data"),
            "port": str(self.port),
            "socket": str(self.socket),
            "pid-file": str(self.folder / "pid"),
        }
        arguments = [*self.programs.command, "--no-defaults", *(["--user=root"] if os.getuid() == 0 else [])]
        arguments += [f"--{key}={value}" for key, value in options.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdout=log, stderr=log, cwd=self.folder, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(pymysql.OperationalError):
                self.connect().close()
                return
            time.sleep(0.02)
        raise RuntimeError((self.folder / "log").read_text("utf-8", "replace")[-2000:])

    def stop(self) -> None:
        """Stop the server in good order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_START_SECONDS)

    def kill(self) -> None:
        """Kill the server, as if its machine had lost power."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def restart(self, *, kill: bool = False) -> None:
        """Stop or kill the server, and start it on the same data and port."""
        (self.kill if kill else self.stop)()
        self.start()

    def purge_log(self) -> None:
        """Remove the log but for a new file, as a server does by age; a reader that has just ended holds its file."""
        self.query("FLUSH BINARY LOGS")
        last = self.query("SHOW BINARY LOGS")[-1][0]
        end = time.monotonic() + _START_SECONDS
        while len(self.query("SHOW BINARY LOGS")) > 1:
            assert time.monotonic() < end, "a reader holds the log"
            self.query(f"PURGE BINARY LOGS TO '{last}'")
            time.sleep(0.05)

    def promote(self) -> None:
        """Make a replica a primary."""
        word = "SLAVE" if self.is_mariadb else "REPLICA"
        self.query(f"STOP {word}")
        self.query(f"RESET {word} ALL")

    def replicate_from(self, primary: MysqlServer, *, has_been_primary: bool = False) -> None:
        """Make this server a replica with GTIDs, from the begin of the primary's log or after its own transactions."""
        place = f"MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='root', MASTER_PASSWORD=''"
        if self.is_mariadb:
            position = "current_pos" if has_been_primary else "slave_pos"
            self.query(f"CHANGE MASTER TO {place}, MASTER_USE_GTID={position}, MASTER_CONNECT_RETRY=1, MASTER_SSL=0")
            self.query("START SLAVE")
        else:
            place = place.replace("MASTER_", "SOURCE_")
            options = "SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1"
            self.query(f"CHANGE REPLICATION SOURCE TO {place}, {options}")
            self.query("START REPLICA")

    def await_replica(self, replica: MysqlServer) -> None:
        """Wait until a replica has everything that this server has committed."""
        if self.is_mariadb:
            ((position,),) = self.query("SELECT @@gtid_binlog_pos")
            ((left,),) = replica.query("SELECT MASTER_GTID_WAIT(%s, 30)", position)
        else:
            ((position,),) = self.query("SELECT @@gtid_executed")
            ((left,),) = replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", position)
        assert left == 0, "the replica did not catch up"


@contextmanager
def new_database(server: MysqlServer) -> Iterator[str]:
    """Yield the URI of an empty database, which is dropped afterwards."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    server.query(f"CREATE DATABASE {name}")
    try:
        yield server.uri(name)
    finally:
        server.query(f"DROP DATABASE IF EXISTS {name}")


# Data in memory costs a fraction of the CPU time of a disk.
def _memory() -> str | None:
    folder = "/dev/shm"  # noqa: S108 - with a folder of its own
    enough = 4 << 30
    return folder if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= enough else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
