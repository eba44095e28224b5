"""Tables of SQL Server as a whole, on the stand-in, and which differences of their copies are certain."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from framework.sources.databases.dialect import SourceRead
from framework.sources.databases.options import Options
from framework.sources.databases.sqlserver.table_copy import SourceTableCopy
from framework.sources.databases.tables import TableName
from framework.testing.manual_clock import ManualClock
from tests.support.sqlserver.dialect import connect
from tests.support.sqlserver.engine import StandIn, StandInCopy

_TABLE = TableName(schema="dbo", table="items")
_COLUMNS = "(id int NOT NULL PRIMARY KEY, n decimal(9, 2), name nvarchar(20))"


class _Waiting(ManualClock):
    """A clock whose sleeps let time pass at the server: the capture job writes an entry."""

    def __init__(self, engine: StandIn) -> None:
        super().__init__()
        self._engine = engine

    def sleep(self, seconds: float) -> None:
        """Let a minute pass at the server."""
        super().sleep(seconds)
        self._engine.database.wait(1)


def _begun(folder: Path, parameters: str = "") -> tuple[StandIn, StandInCopy, SourceTableCopy]:
    """Return a database, a copy of its table, and the table to compare."""
    engine = StandIn(folder, parameters)
    engine.execute(f"CREATE TABLE items {_COLUMNS}", "CREATE TABLE others (id int NOT NULL PRIMARY KEY)")
    engine.execute("INSERT INTO items VALUES (1, '1.50', N'é'), (2, NULL, N'')")
    if parameters:
        engine.database.track("items")
        engine.database.track("others")
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    connection = Options("reconcile", engine.options).connection()
    table = SourceTableCopy.of(connect, connection, _TABLE)
    assert table.keys == ("id",)
    return engine, copy, SourceTableCopy(
        connect=connect, connection=connection, name=_TABLE, table=table.table, clock=_Waiting(engine)
    )  # fmt: skip


def _rows(read: SourceRead) -> list[tuple[object, ...]]:
    rows = pq.read_table(read.path).to_pylist()
    return sorted((row["c0"], None if row["c1"] is None else str(row["c1"]), row["c2"]) for row in rows)


@pytest.mark.parametrize("parameters", ["", "?changes=tracking"])
def test_a_difference_is_certain_if_the_log_has_no_change_after_the_copy(tmp_path: Path, parameters: str) -> None:
    """With both ways of changes: behind after a change of the table, certain again when that was read."""
    engine, copy, table = _begun(tmp_path, parameters)
    read = table.fetch(tmp_path)
    assert _rows(read) == [(1, "1.50", "é"), (2, None, "")]
    assert table.doubt(read, json.dumps(copy.offset)) is None
    engine.execute("INSERT INTO others VALUES (1)")
    assert table.doubt(read, json.dumps(copy.offset)) is None
    engine.execute("DELETE FROM items WHERE id = 1", "UPDATE items SET name = N'x' WHERE id = 2")
    read = table.fetch(tmp_path)
    assert _rows(read) == [(2, None, "x")]
    assert "the log has 2 changes of the table after the first" in str(table.doubt(read, json.dumps(copy.offset)))
    copy.follow()
    assert table.doubt(read, json.dumps(copy.offset)) is None


def test_a_difference_is_in_doubt_while_the_capture_job_is_late(tmp_path: Path) -> None:
    """What it has not read may be the difference."""
    engine, copy, table = _begun(tmp_path)
    engine.database.captures = False
    engine.execute("DELETE FROM items WHERE id = 1")
    read = table.fetch(tmp_path)
    assert "has read no commit after the time" in str(table.doubt(read, json.dumps(copy.offset)))
    engine.database.captures = True
    assert "the log has 1 changes" in str(table.doubt(read, json.dumps(copy.offset)))


def test_a_table_that_the_copy_has_not_begun_to_follow_is_in_doubt(tmp_path: Path) -> None:
    """Its changes before the begin are in no range that the copy reads."""
    _, copy, table = _begun(tmp_path)
    stored = json.dumps({**copy.offset, "tables": []})
    assert "has not begun" in str(table.doubt(table.fetch(tmp_path), stored))
