"""A database of the stand-in as the suite of dialects uses it, and a copy that its readers make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql.streaming.datasource import ReadAllAvailable

from framework.sources.databases.formats import changes_request, snapshot_request
from framework.sources.databases.source_session import LogName
from framework.sources.databases.streams.changes_stream import ChangesStreamReader
from framework.sources.databases.streams.snapshot_stream import SnapshotStreamReader
from framework.testing.dialect_copies import TypeCase
from tests.support.sqlserver.database import Database

TYPES = (
    TypeCase(type="bit", literals=("1", "0")),
    TypeCase(type="tinyint", literals=("255", "0")),
    TypeCase(type="smallint", literals=("32767", "-32768")),
    TypeCase(type="bigint", literals=("9223372036854775807", "-9223372036854775808")),
    TypeCase(type="decimal(38, 9)", literals=("'12345678901234567890123456789.123456789'", "'-0.000000001'")),
    TypeCase(type="money", literals=("'922337203685477.5807'", "'-0.0001'")),
    TypeCase(type="float", literals=("0.1", "1e300", "-0.0")),
    TypeCase(type="nvarchar(50)", literals=("N''", "N'Grüße \"日本\" \\ / '")),
    TypeCase(type="date", literals=("'0001-01-01'", "'9999-12-31'")),
    TypeCase(type="datetime", literals=("'1753-01-01 00:00:00.003'", "'9999-12-31 23:59:59.997'")),
    TypeCase(type="datetime2(6)", literals=("'0001-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'")),
    TypeCase(type="datetime2(7)", literals=("'2026-03-29 02:30:00.1234560'",)),
    TypeCase(type="datetime2(0)", literals=("'2026-03-29 02:30:00'",)),
    TypeCase(
        type="datetimeoffset(6)",
        literals=("'2026-03-29 02:30:00.000001 +01:00'", "'1900-01-01 00:00:00.000000 -14:00'"),
    ),
    TypeCase(type="time(7)", literals=("'23:59:59.9999999'", "'00:00:00.0000000'")),
    TypeCase(type="uniqueidentifier", literals=("'6F9619FF-8B86-D011-B42D-00C04FC964FF'",)),
    TypeCase(type="varbinary(20)", literals=("0x", "0x00FF")),
)


class StandIn:
    """A database of the stand-in.

    Args:
        folder: for its files, and the file of the connection `shop`.
        parameters: of the URL.
        captures: whether the capture job runs after each transaction.
    """

    schema = "dbo"
    number = "int"
    rows = 3000  # of which a chunk has at least 1000
    chunk_options: Mapping[str, str] = {"chunkBytes": "1", "maxChunksPerTrigger": "1"}
    types: Sequence[TypeCase] = TYPES

    def __init__(self, folder: Path, parameters: str = "", *, captures: bool = True) -> None:
        self.folder = folder
        self.database = Database(folder / "server", captures=captures)
        self.options = {"connection": "shop", "connectionsFolder": str(folder)}
        self.connect(parameters)

    def connect(self, parameters: str) -> None:
        """Write the connection, with parameters of its URL."""
        self.uri = f"sqlserver-stand-in://local/{quote(str(self.folder / 'server'), safe='')}{parameters}"
        (self.folder / "connections.yml").write_text(f"shop: {self.uri}\n", "utf-8")

    def execute(self, *statements: str) -> None:
        """Run statements; the capture job follows each of them."""
        self.database.execute(*statements)

    def lose_log(self, log: LogName) -> None:
        """Let the clean-up job remove all changes."""
        del log
        self.database.clean_up(self.database.captured)

    def replace(self) -> None:
        """Restore the database."""
        self.database.restore()


@dataclass
class StandInCopy:
    """A copy of tables with the key `id`, by the readers as streams call them.

    Args:
        engine: the database.
        tables: the tables.
        options: of the changes, in addition to those of the engine.
    """

    engine: StandIn
    tables: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    rows: dict[str, dict[Any, dict[str, Any]]] = field(default_factory=dict)
    offset: dict[str, Any] = field(default_factory=dict)
    marks: list[tuple[str, str, str | None]] = field(default_factory=list)
    _requests: dict[str, Any] = field(default_factory=dict)

    def reader(self) -> ChangesStreamReader:
        """A reader of changes, as a process has it that started now."""
        own = {"slot": "copy", "tables": ", ".join(f"dbo.{table}" for table in self.tables), "unreadableRows": "keep"}
        options = {**self.engine.options, **own, **self.options}
        found = self._requests.get(str(options) + self.engine.uri)
        if found is None:  # the entry points of a connection's scheme are read from many files
            found = self._requests[str(options) + self.engine.uri] = changes_request(options)
        return ChangesStreamReader(found)

    def begin(self) -> None:
        """Make the position, then read each table."""
        reader = self.reader()
        self.offset = reader.initialOffset()
        reader.stop()
        for table in self.tables:
            self.read_table(table)

    def read_table(self, table: str) -> None:
        """Read a table by its chunks."""
        key = f"{table} {self.engine.uri}"
        request = self._requests.get(key)
        if request is None:
            options = {**self.engine.options, "table": f"dbo.{table}", "slot": "copy"}
            request = self._requests[key] = snapshot_request(options)
        reader = SnapshotStreamReader(request, tuple(each.name for each in request.describe()[1]))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
        self.rows[table] = {row["id"]: row for batch in batches for row in batch.to_pylist()}

    def follow(self, *, is_killed: bool = False) -> list[dict[str, Any]]:
        """Read changes to the end of the log and apply them; a killed reader is followed by one that reads again."""
        reader = self.reader()
        end = reader.latestOffset(self.offset, ReadAllAvailable())
        changes = _changes(reader, self.offset, end)
        reader.stop()
        if is_killed:
            second = self.reader()
            assert _changes(second, self.offset, end) == changes
            second.stop()
        for change in changes:
            self._apply(change)
        self.offset = end
        return changes

    def _apply(self, change: Mapping[str, Any]) -> None:
        table, operation = change["source_table"].removeprefix("dbo."), change["operation"]
        if operation not in ("INSERT", "UPDATE", "DELETE"):
            self.marks.append((table, operation, change["payload"]))
            return
        values = json.loads(change["payload"])
        self.rows[table].pop(values["id"], None)
        if operation != "DELETE":
            self.rows[table][values["id"]] = values

    def source(self, table: str) -> dict[Any, dict[str, Any]]:
        """The rows of a source table."""
        cursor = self.engine.database.raw.execute(f"SELECT * FROM dbo.[{table}]")
        names = [each[0] for each in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}


def _changes(reader: ChangesStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
