"""Debezium's embedded engine, which reads the log of MariaDB beside Sluice, in a JVM of its own.

Its changes are counted and dropped, without a serialization. Its time begins with the first change that it delivers,
so that the start of the JVM and of the engine does not count. The connector of MySQL is used, in the last version that
accepts MariaDB: that of MariaDB could not be had. It leaves out the first row after a restart, which is not waited for.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pyspark

from bench.mariadb_source import MariadbSource
from framework.session.jars import resolved_jars
from framework.session.java import find_java

_VERSION = "3.3.1.Final"
_PACKAGES = ",".join(f"io.debezium:debezium-{name}:{_VERSION}" for name in ("embedded", "connector-mysql"))
_SOURCE = Path(__file__).parent / "projects" / "debezium" / "LogReader.java"
_SECONDS = 900
_MARKS = "marks"


class Debezium:
    """The engine, which has a position in the log between its runs.

    Args:
        source: the server.
        folder: for its program, its position and its history of schemas.
    """

    def __init__(self, source: MariadbSource, folder: Path) -> None:
        self._source = source
        self._folder = folder
        folder.mkdir()
        jars = resolved_jars(_PACKAGES, find_java(), str(Path(pyspark.__file__).parent), {}, excluded=())
        self._path = f"{Path(jars[0]).parent}/*:{folder}"
        subprocess.run([_compiler(), "-cp", self._path, "-d", str(folder), str(_SOURCE)], check=True, timeout=_SECONDS)
        properties = {
            "name": "bench", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "bench",
            "database.hostname": "127.0.0.1", "database.port": source.server.port, "database.user": "root",
            "database.password": "", "database.server.id": 4711, "database.ssl.mode": "disabled",
            "database.include.list": "bench", "table.include.list": f"bench.events,bench.{_MARKS}",
            "snapshot.mode": "no_data", "offset.flush.interval.ms": 0, "max.batch.size": 8192,
            "max.queue.size": 32768, "poll.interval.ms": 10,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": folder / "offsets",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": folder / "history",
        }  # fmt: skip
        lines = (f"{name}={value}\n" for name, value in properties.items())
        (folder / "properties").write_text("".join(lines), "utf-8")

    @staticmethod
    def is_possible() -> bool:
        """Whether there is a compiler of Java."""
        return bool(_compiler())

    def begin(self) -> None:
        """Find a position: it reads until it has seen one of the rows that are written meanwhile."""
        self._source.server.query(f"CREATE TABLE {_MARKS} (id INT PRIMARY KEY AUTO_INCREMENT)", database="bench")
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(self._command(0), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            deadline = time.monotonic() + _SECONDS
            while process.poll() is None:
                assert time.monotonic() < deadline, self._said()
                self._mark()
                time.sleep(0.5)
        assert process.returncode == 0, self._said()

    def receive(self, rows: int) -> tuple[float, float]:
        """Read so many changes of `events`; return the seconds of the clock and of the CPU."""
        self._mark()
        with (self._folder / "log").open("ab") as log:
            done = subprocess.run(
                self._command(rows - 1), stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=_SECONDS,
                check=False,
            )  # fmt: skip
        assert done.returncode == 0, self._said()
        wall, cpu = (int(text) / 1e9 for text in (self._folder / "figures").read_text("utf-8").split())
        return wall, cpu

    def _mark(self) -> None:
        self._source.server.query(f"INSERT INTO {_MARKS} VALUES ()", database="bench")

    def _command(self, changes: int) -> list[str]:
        properties, figures = (str(self._folder / name) for name in ("properties", "figures"))
        return [
            str(Path(_compiler()).with_name("java")),
            "-Xmx1g",
            "-cp",
            self._path,
            "LogReader",
            properties,
            "events",
            _MARKS,
            str(changes),
            figures,
        ]

    def _said(self) -> str:
        return (self._folder / "log").read_text("utf-8", "replace")[-3000:]


def _compiler() -> str:
    return shutil.which("javac") or ""
