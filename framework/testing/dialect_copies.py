"""What the conformance suite of dialects works with: a database under test, and a copy of a table of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.streaming.datasource import ReadAllAvailable

from framework.sources.databases.formats import changes_request, snapshot_request
from framework.sources.databases.source_session import LogName
from framework.sources.databases.streams.changes_stream import ChangesStreamReader
from framework.sources.databases.streams.snapshot_stream import SnapshotStreamReader
from framework.sources.databases.tables import TableName

Rows = dict[int, Any]
DELETED = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCase:
    """A type of the database, with values that are hard to keep exact.

    Args:
        type: as SQL of the database.
        literals: the values, as SQL of the database; NULL is tried with each type.
    """

    type: str
    literals: tuple[str, ...]


class EngineUnderTest(Protocol):
    """An empty database of the dialect under test, which a test fills and breaks."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options `connection` and `connectionsFolder`."""
        ...

    @property
    def schema(self) -> str:
        """A schema of the database."""
        ...

    @property
    def number(self) -> str:
        """The type of whole numbers, as SQL."""
        ...

    @property
    def types(self) -> Sequence[TypeCase]:
        """The types to try, each with its values."""
        ...

    @property
    def rows(self) -> int:
        """How many rows a table has that is read in several chunks."""
        ...

    @property
    def chunk_options(self) -> Mapping[str, str]:
        """The options with which a table of so many rows has several chunks, one in each micro-batch."""
        ...

    def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own. INSERT, UPDATE and DELETE of standard SQL are known."""
        ...

    def lose_log(self, log: LogName) -> None:
        """Remove what a reader needs that stands at an earlier position, as the database does it by itself."""
        ...

    def replace(self) -> None:
        """Put another database, with the same tables and a log of the same length or longer, at the same address."""
        ...


@dataclass(frozen=True)
class Copy:
    """A copy of a table `(id, n)`, made by the readers as streams call them.

    Args:
        engine: the database.
        table: the table.
        name: what the copy is called at the source.
    """

    engine: EngineUnderTest
    table: str = "items"
    name: str = "conformance"

    @property
    def log(self) -> LogName:
        """What the copy is called at the source."""
        return LogName(position=self.name, tables=self.name)

    @property
    def table_name(self) -> TableName:
        """The name of the table."""
        return TableName(schema=self.engine.schema, table=self.table)

    def snapshot(self) -> SnapshotStreamReader:
        """A reader of chunks, as a process has it that started now."""
        own = {"table": str(self.table_name), "slot": self.name, **self.engine.chunk_options}
        request = snapshot_request({**self.engine.options, **own})
        return SnapshotStreamReader(request, tuple(each.name for each in request.describe()[1]))

    def changes(self, not_after: int = 0) -> ChangesStreamReader:
        """A reader of the log, as a process has it that started now; it begins where a snapshot has begun."""
        own = {"slot": self.name, "tables": str(self.table_name), "notAfter": str(not_after)}
        return ChangesStreamReader(changes_request({**self.engine.options, **own}))

    def offsets(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Plan all micro-batches of a snapshot, each by a new reader; yield the offsets before and after each."""
        start = self.snapshot().initialOffset()
        while True:
            reader = self.snapshot()
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            if end == start:
                return
            yield start, end
            start = end

    def rows(self, start: dict[str, Any], end: dict[str, Any], value: str = "n") -> list[tuple[int, Any]]:
        """Read the chunks between two offsets by a new reader."""
        reader = self.snapshot()
        return [
            (row["id"], row[value])
            for part in reader.partitions(start, end)
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]


def read_all(reader: ChangesStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read to the end of the log, and return the offset there with the changes."""
    end = reader.latestOffset(start, ReadAllAvailable())
    if end == start:  # the first micro-batch, which stores the start
        assert read_between(reader, start, end) == []
        end = reader.latestOffset(start, ReadAllAvailable())
    return end, read_between(reader, start, end)


def read_between(reader: ChangesStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the changes between two offsets."""
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def applied(rows: Rows, changes: Sequence[Mapping[str, Any]]) -> Rows:
    """Return rows by key after changes, in their order."""
    state = dict(rows)
    for change in changes:
        values = json.loads(change["payload"])
        state.pop(values["id"], None)
        if change["operation"] != DELETED:
            state[values["id"]] = values["n"]
    return state
