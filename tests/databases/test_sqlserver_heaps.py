"""Tables of SQL Server whose rows are not stored in the order of their key: updates that move rows from key to key."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.foundation.errors import SourceError
from framework.sources.databases.dialects import open_source
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import LogName
from framework.sources.databases.sqlserver.log.moved_keys import Deletion, MovedKeys
from framework.sources.databases.tables import TableName
from tests.support.sqlserver.database import parsed
from tests.support.sqlserver.engine import StandIn, StandInCopy

ITEMS = TableName(schema="dbo", table="items")
_HEAP = "CREATE TABLE items (id int NOT NULL, n int, PRIMARY KEY NONCLUSTERED (id))"
_statement = st.one_of(
    st.tuples(st.just("shift"), st.integers(1, 6), st.sampled_from((-1, 1, 2))),
    st.tuples(st.just("insert"), st.integers(1, 8), st.just(0)),
    st.tuples(st.just("delete"), st.integers(1, 8), st.just(0)),
    st.tuples(st.just("change"), st.integers(1, 8), st.just(0)),
)


def _copy(folder: Path, *, is_kept: bool = True) -> StandInCopy:
    engine = StandIn(folder)
    engine.execute(_HEAP, "INSERT INTO items VALUES (1, 10), (2, 20), (3, 30)")
    copy = StandInCopy(engine, ("items",), {} if is_kept else {"unreadableRows": "fail"})
    copy.begin()
    return copy


def test_a_statement_that_moves_every_row_of_a_heap_loses_none(tmp_path: Path) -> None:
    """The insertion of the key 2 is before the deletion of the row that had it: this deletion is not a change."""
    copy = _copy(tmp_path)
    copy.engine.execute("UPDATE items SET id = id + 1")
    changes = [(each["operation"], each["payload"]) for each in copy.follow()]
    assert copy.source("items") == copy.rows["items"]
    assert changes == [
        ("DELETE", '{"id":1}'),
        ("INSERT", '{"id":2,"n":10}'),
        ("INSERT", '{"id":3,"n":20}'),
        ("INSERT", '{"id":4,"n":30}'),
    ]


def test_rows_that_only_their_history_distinguishes_hold_the_table(tmp_path: Path) -> None:
    """One row that moves twice, and two equal rows that move once, look alike in the change table."""
    copy = _copy(tmp_path)
    copy.engine.execute("UPDATE items SET n = 0")
    copy.follow()
    copy.engine.execute("UPDATE items SET id = id + 1")
    copy.follow()
    assert [(table, operation) for table, operation, _ in copy.marks] == [("items", "UNREADABLE")] * 2
    assert "do not show which of the two was deleted" in str(copy.marks[0][2])


def test_a_reader_of_its_own_fails_at_such_rows(tmp_path: Path) -> None:
    """Named, with the way out."""
    copy = _copy(tmp_path, is_kept=False)
    copy.engine.database.run("UPDATE items SET id = 9 WHERE id = 1", "UPDATE items SET id = 1 WHERE id = 9")
    with pytest.raises(SourceError, match="SQLSERVER_KEY_MOVED"):
        copy.follow()


def test_the_preflight_names_a_table_whose_key_is_not_clustered(tmp_path: Path) -> None:
    """With the statement that mends a heap; a table with a clustered key has no such finding."""
    engine = StandIn(tmp_path)
    engine.execute(_HEAP, "CREATE TABLE lines (id int NOT NULL PRIMARY KEY)")
    log = LogName(position="copy", tables="copy")
    with open_source(Options("test", engine.options).connection()) as source:
        (finding,) = source.check([ITEMS, TableName(schema="dbo", table="lines")], log)
    assert (finding.condition, finding.table) == ("SQLSERVER_KEY_NOT_CLUSTERED", ITEMS)
    assert finding.statement == "CREATE UNIQUE CLUSTERED INDEX [sluice_key] ON [dbo].[items] ([id])"
    parsed(finding.statement)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(_statement, min_size=1, max_size=4), min_size=2, max_size=6))
def test_a_copy_of_a_heap_is_equal_or_held(transactions: list[list[tuple[str, int, int]]]) -> None:
    """Random transactions over rows with values of their own: the copy is equal unless the table is held."""
    with TemporaryDirectory() as folder:
        copy, numbers = _copy(Path(folder)), count(100)
        database = copy.engine.database
        for transaction in transactions:
            statements, ids = [], set(copy.source("items"))
            for kind, key, distance in transaction:
                moved = {each + distance if kind == "shift" and each >= key else each for each in ids}
                if kind == "shift" and len(moved) == len(ids):
                    statements.append(f"UPDATE items SET id = id + {distance} WHERE id >= {key}")
                    ids = moved
                elif kind == "insert" and key not in ids:
                    statements.append(f"INSERT INTO items VALUES ({key}, {next(numbers)})")
                    ids.add(key)
                elif kind == "delete":
                    statements.append(f"DELETE FROM items WHERE id = {key}")
                    ids.discard(key)
                elif kind == "change":
                    statements.append(f"UPDATE items SET n = {next(numbers)} WHERE id = {key}")
            database.run(*statements)
            copy.follow()
            if copy.marks:
                break
            assert copy.source("items") == copy.rows["items"]
        database.close()


def test_values_that_the_log_leaves_out_are_not_compared() -> None:
    """A deletion lacks them, so the row would look like an older one, and stay in the copy."""
    moved = MovedKeys(["int", "nvarchar(max)", "nvarchar(20)"])
    moved.begin()
    moved.move((2,), (2, "long", "a"))
    assert moved.delete((2,), (2, None, "a")) is Deletion.UNKNOWN


def test_each_transaction_begins_without_moved_rows() -> None:
    """At its begin a key has one row."""
    moved = MovedKeys(["int"])
    moved.begin()
    moved.move((2,), (2,))
    moved.begin()
    assert moved.delete((2,), (2,)) is Deletion.LAST


def test_a_row_that_was_changed_after_its_move_is_the_only_one() -> None:
    """The statement that moved it has ended, so the deletion is its own."""
    moved = MovedKeys(["int", "int"])
    moved.begin()
    moved.move((2,), (2, 5))
    moved.change((2,), (2, 6))
    assert moved.delete((2,), (2, 6)) is Deletion.LAST
    assert moved.delete((2,), (2, 7)) is Deletion.LAST
