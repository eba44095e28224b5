"""An independent reader of the log of MySQL and MariaDB: Debezium's library, in a JVM that reads the same files.

The library comes from Maven by Spark's own resolver. Its program is `java/Judge.java`, which the compiler that Spark
ships translates, so that a Java without a compiler is enough.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyspark

from framework.session.jars import resolved_jars
from framework.session.java import find_java
from framework.sources.databases.mysql.log.places import LogPlace
from tests.support.mysql_servers import MysqlServer

LIBRARY = "io.debezium:mysql-binlog-connector-java:0.40.4"
_SPARK = Path(pyspark.__file__).parent
_SOURCE = Path(__file__).parent / "java" / "Judge.java"
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
# A small JVM: it reads a few megabytes.
_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
_SECONDS = 120

Image = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A changed row.

    Args:
        table: `schema.table`.
        operation: INSERT, UPDATE or DELETE.
        before: the values before it, as `Judge.java` writes them; None for an INSERT.
        after: the values after it; None for a DELETE.
    """

    table: str
    operation: str
    before: Image | None
    after: Image | None


class Judge:
    """A process that reads files of logs.

    Args:
        requests: its input.
        answers: its output.
    """

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers

    def rows(self, server: MysqlServer, start: LogPlace, end: LogPlace) -> list[JudgedRow]:
        """Return the rows between two places of a file of a server's log."""
        assert start.file == end.file
        file = server.folder / "data" / start.file
        self._requests.write(f"{file}\t{start.offset}\t{end.offset}\n")
        self._requests.flush()
        rows = []
        while (line := self._answers.readline()) != "\n":
            assert line, "the judge has ended"
            rows.append(JudgedRow(*json.loads(line)))
        return rows


@contextmanager
def running_judge(folder: Path) -> Iterator[Judge]:
    """Run a judge whose program is compiled into an empty folder; it ends with the block."""
    java = find_java()
    library = resolved_jars(LIBRARY, java, str(_SPARK), {}, excluded=())
    compiler = [
        str(path) for name in ("janino", "commons-compiler") for path in (_SPARK / "jars").glob(f"{name}-*.jar")
    ]
    command = [java.program, *_OPTIONS, "-cp"]
    compile_source = [":".join(compiler), _COMPILER, "-classpath", ":".join(library), "-d", str(folder), str(_SOURCE)]
    subprocess.run([*command, *compile_source], check=True, timeout=_SECONDS)
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [*command, ":".join([str(folder), *library]), "Judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Judge(process.stdin, process.stdout)
        finally:
            process.kill()
