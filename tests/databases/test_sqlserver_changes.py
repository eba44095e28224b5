"""Changes of SQL Server on the stand-in: late capture jobs, clean-ups, capture instances that follow each other."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.foundation.errors import SourceError
from framework.sources.databases.dialects import open_source
from framework.sources.databases.options import Options
from framework.sources.databases.position import position_of
from framework.sources.databases.source_session import KnownTable, LogName
from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.statements import enable_table
from framework.sources.databases.tables import TableName
from tests.support.sqlserver.database import lsn_of
from tests.support.sqlserver.engine import StandIn, StandInCopy

LOG = LogName(position="copy", tables="copy")
ITEMS, LINES = TableName(schema="dbo", table="items"), TableName(schema="dbo", table="lines")
_TABLES = ("items", "lines")
_COLUMNS = "(id int NOT NULL PRIMARY KEY, n int, name nvarchar(20))"
_keys = st.integers(1, 6)
_table = st.sampled_from(_TABLES)
_write = st.one_of(
    st.builds("INSERT OR REPLACE INTO {} VALUES ({}, {}, N'é')".format, _table, _keys, st.integers(0, 9)),
    st.builds("UPDATE {} SET n = {} WHERE id >= {}".format, _table, st.integers(0, 9), _keys),
    st.builds("UPDATE OR REPLACE {} SET id = {} WHERE id = {}".format, _table, _keys, _keys),
    st.builds("DELETE FROM {} WHERE id = {}".format, _table, _keys),
)
_action = st.one_of(
    st.tuples(st.just("write"), st.lists(_write, min_size=1, max_size=3)),
    st.tuples(st.just("capture"), st.integers(1, 3)),
    st.tuples(st.just("follow"), st.booleans()),
    st.tuples(st.just("switch"), _table),
    st.tuples(st.sampled_from(("clean", "wait", "reread")), _table),
)


def _engine(folder: Path, parameters: str = "", *, captures: bool = True) -> StandIn:
    engine = StandIn(folder, parameters, captures=captures)
    for table in _TABLES:
        engine.execute(f"CREATE TABLE {table} {_COLUMNS}", f"INSERT INTO {table} VALUES (1, 1, N'a'), (2, 2, N'b')")
    return engine


class _Run:
    """A run of actions on a database with a late capture job."""

    def __init__(self, engine: StandIn) -> None:
        self.database = engine.database
        self.copy = StandInCopy(engine, _TABLES)
        self.instances = 0
        self.copy.begin()

    def write(self, statements: list[str]) -> None:
        """Run a transaction. SQLite's REPLACE would delete rows without a trigger, so keys are taken when free."""
        self.database.raw.execute("PRAGMA recursive_triggers = 1")
        with self.database.transaction():
            for statement in statements:
                self.database.raw.execute(statement.replace("N'", "'").replace(" INTO ", " INTO dbo.", 1))
            self.database._end_transaction()

    def capture(self, most: int) -> None:
        """Let the capture job read some transactions."""
        self.database.capture(most)

    def follow(self, is_killed: bool) -> None:  # noqa: FBT001 - an argument of an action
        """Read to the end of what the job has read."""
        self.copy.follow(is_killed=is_killed)

    def switch(self, table: str) -> None:
        """Make another capture instance, and drop the oldest of three once the copy no longer needs it."""
        self.instances += 1
        with self.database.transaction():
            self.database.enable(table, f"{table}_{self.instances}")
        found = self.database.rows(
            "SELECT capture_instance, start_lsn FROM cdc.change_tables WHERE source_object_id = ? ORDER BY create_date",
            [self.database.object_id(table)],
        )
        position = Lsn.of_text(self.copy.offset["text"]).value
        for (name, _), (_, later) in pairwise(found):
            if later <= position:
                self.database.disable(name)

    def clean(self, _: str) -> None:
        """Remove changes up to the position of the copy."""
        self.database.clean_up(Lsn.of_text(self.copy.offset["text"]))

    def wait(self, _: str) -> None:
        """Let time pass."""
        self.database.wait(5)

    def reread(self, table: str) -> None:
        """Read a table again: what the job has not read comes again as changes."""
        self.copy.read_table(table)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_action, min_size=5, max_size=25))
def test_a_copy_converges_whatever_the_jobs_do(actions: list[tuple[str, object]]) -> None:
    """Random transactions, a late capture job, kills, clean-ups and other instances: at the end both are equal."""
    with TemporaryDirectory() as folder:
        run = _Run(_engine(Path(folder), captures=False))
        for name, argument in actions:
            getattr(run, name)(argument)
        run.database.capture()
        run.copy.follow(is_killed=True)
        assert run.copy.marks == []
        assert {table: run.copy.source(table) for table in _TABLES} == run.copy.rows
        run.database.close()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2000), st.integers(1, 2000))
def test_orders_sort_as_lsns_do(first: int, second: int) -> None:
    """Also within a block and over files; and an LSN has its order alone."""
    one, other = lsn_of(first), lsn_of(second)
    assert (one < other, one == other) == (one.order < other.order, one.order == other.order)
    assert Lsn.of_order(one.order) == one
    assert Lsn.of_text(str(one)) == one


def test_an_lsn_beyond_the_numbers_of_positions_is_refused() -> None:
    """A cut number would sort wrongly, in silence."""
    for digits in ("04000000000000100001", "00000001020000000001", "00000001000000101000", "00000000000000000000"):
        with pytest.raises(SourceError, match="SQLSERVER_LSN_TOO_LARGE"):
            _ = Lsn(bytes.fromhex(digits)).order


def test_a_clean_up_past_the_position_is_a_gap_of_the_database(tmp_path: Path) -> None:
    """The begin of every instance is after the position; `fn_cdc_get_min_lsn('')` would have shown zero."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, _TABLES)
    copy.begin()
    engine.execute("DELETE FROM items WHERE id = 1", "UPDATE lines SET n = 5 WHERE id = 1")
    engine.database.clean_up(engine.database.captured)
    with pytest.raises(SourceError, match=r"DATABASE_POSITION_LOST\.LOG_REMOVED"):
        copy.follow()


def test_a_clean_up_in_the_middle_of_a_read_is_a_gap(tmp_path: Path) -> None:
    """The begin of an instance is compared again after its changes were read."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, _TABLES)
    copy.begin()
    engine.execute("DELETE FROM items WHERE id = 1", "UPDATE lines SET n = 5 WHERE id = 1")
    engine.database.put("cleans_while_reading", 1)
    with pytest.raises(SourceError, match=r"DATABASE_POSITION_LOST\.LOG_REMOVED"):
        copy.follow()


def test_change_data_capture_that_was_disabled_is_a_gap(tmp_path: Path) -> None:
    """Its change tables are gone, whether it was enabled again or not."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    ((name,),) = engine.database.rows("SELECT capture_instance FROM cdc.change_tables")
    engine.database.disable(name)
    with pytest.raises(SourceError, match=r"DATABASE_POSITION_LOST\.SQLSERVER_DISABLED"):
        copy.follow()
    engine.execute(enable_table(ITEMS, "again"))
    with pytest.raises(SourceError, match=r"DATABASE_POSITION_LOST\.LOG_REMOVED"):
        copy.follow()


def test_an_instance_that_was_made_again_is_a_gap_of_its_table(tmp_path: Path) -> None:
    """The table is held at this position, and the other one goes on; later changes come for both."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, _TABLES)
    copy.begin()
    before = copy.offset
    ((name,),) = engine.database.rows(
        "SELECT capture_instance FROM cdc.change_tables WHERE source_object_id = ?",
        [engine.database.object_id("items")],
    )
    engine.database.disable(name)
    engine.execute("DELETE FROM items WHERE id = 1")
    engine.execute(enable_table(ITEMS, "again"), "UPDATE lines SET n = 7 WHERE id = 1", "UPDATE items SET n = 8")
    copy.follow()
    assert [(table, operation) for table, operation, _ in copy.marks] == [("items", "UNREADABLE")]
    assert "SQLSERVER_CAPTURE_GAP" not in str(copy.marks[0][2])
    assert "begins at" in str(copy.marks[0][2])
    assert copy.source("lines") == copy.rows["lines"]
    failing = StandInCopy(engine, _TABLES, {"unreadableRows": "fail"}, offset=before)
    with pytest.raises(SourceError, match="SQLSERVER_CAPTURE_GAP"):
        failing.follow()


def test_an_instance_without_a_successor_is_named_once(tmp_path: Path) -> None:
    """A dropped table loses its instance, too: its rows in the copy belong to a table that is gone."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, _TABLES)
    copy.begin()
    engine.execute("DROP TABLE items", "UPDATE lines SET n = 7 WHERE id = 1", f"CREATE TABLE items {_COLUMNS}")
    copy.options = {"identities": f"dbo.items.{copy.offset['tables'][0]}"}
    copy.follow()
    engine.execute("UPDATE lines SET n = 8 WHERE id = 1")
    copy.follow()
    assert [(table, operation) for table, operation, _ in copy.marks] == [("items", "REPLACED")]
    assert copy.source("lines") == copy.rows["lines"]


def test_a_new_instance_is_read_from_its_begin_on(tmp_path: Path) -> None:
    """Changes before it have the old columns and version, those after it the new ones; none comes twice."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    engine.execute("UPDATE items SET n = 3 WHERE id = 1", "ALTER TABLE items ADD price decimal(9, 2)")
    engine.execute("UPDATE items SET price = '1.50', n = 4 WHERE id = 1", enable_table(ITEMS, "second"))
    engine.execute("UPDATE items SET price = '2.50', n = 5 WHERE id = 1")
    changes = copy.follow()
    assert [sorted(json.loads(each["payload"])) for each in changes] == [
        ["id", "n", "name"], ["id", "n", "name"], ["id", "n", "name", "price"],
    ]  # fmt: skip
    assert [json.loads(each["payload"])["n"] for each in changes] == [3, 4, 5]
    assert len({each["schema_version"] for each in changes}) == 2
    connection = Options("test", engine.options).connection()
    with open_source(connection) as source:
        table = source.read_table(ITEMS)
    assert table.log_version == changes[-1]["schema_version"]
    assert [column.name for column in table.columns] == ["id", "n", "name", "price"]


def test_a_column_that_no_instance_has_is_left_out_and_found(tmp_path: Path) -> None:
    """The copy lacks it until a second instance is made by the statement of the finding."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    engine.execute("ALTER TABLE items ADD price decimal(9, 2)")
    connection = Options("test", engine.options).connection()
    with open_source(connection) as source:
        assert [column.name for column in source.read_table(ITEMS).columns] == ["id", "n", "name"]
        (finding,) = source.check([ITEMS], LOG)
        assert (finding.condition, finding.table) == ("SQLSERVER_CAPTURE_COLUMNS", ITEMS)
        engine.execute(finding.statement)
        assert [column.name for column in source.read_table(ITEMS).columns] == ["id", "n", "name", "price"]
        assert source.check([ITEMS], LOG) == ()


def test_a_table_goes_on_by_a_later_instance_that_has_all_of_its_changes(tmp_path: Path) -> None:
    """The older one may be dropped once the copy is past the begin of the later one; before, it is a hole."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    connection = Options("test", engine.options).connection()
    with open_source(connection) as source:
        table, logged = source.read_table(ITEMS), source.logged_tables(LOG)
        known = logged.continuity(table)
        before = json.dumps(copy.offset)
        engine.execute(enable_table(ITEMS, "second"), "UPDATE items SET n = 3")
        copy.follow()
        ((name,),) = engine.database.rows(
            "SELECT capture_instance FROM cdc.change_tables WHERE capture_instance <> 'second'"
        )
        engine.database.disable(name)
        logged = source.logged_tables(LOG)
        logged.refuse(table, KnownTable(is_begun=True, continuity=known, position=json.dumps(copy.offset)))
        with pytest.raises(Exception, match="INGESTION_TABLE_UNPUBLISHED"):
            logged.refuse(table, KnownTable(is_begun=True, continuity=known, position=before))


def test_a_position_without_changes_is_stored_before_the_clean_up_passes_it(tmp_path: Path) -> None:
    """An idle table's position moves with the entries that the capture job writes."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    engine.database.wait(5)
    engine.database.wait(5)
    start = copy.offset
    assert copy.follow() == []
    assert copy.offset == start
    for _ in range(2):
        engine.database.wait(4 * 60)
    copy.follow()
    assert position_of(json.dumps(start)).order < position_of(json.dumps(copy.offset)).order


def test_a_value_of_100_nanoseconds_is_an_error_or_text(tmp_path: Path) -> None:
    """A chunk fails, a change is kept as unreadable; as text both have all digits."""
    engine = StandIn(tmp_path)
    engine.execute("CREATE TABLE items (id int NOT NULL PRIMARY KEY, at datetime2(7))")
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    engine.execute("INSERT INTO items VALUES (1, '2026-01-02 03:04:05.1234567'), (2, '2026-01-02 03:04:05.1234560')")
    copy.follow()
    assert [(table, operation) for table, operation, _ in copy.marks] == [("items", "UNREADABLE")]
    assert "2026-01-02 03:04:05.1234567 in column at" in str(copy.marks[0][2])
    assert copy.rows["items"] == {2: {"id": 2, "at": "2026-01-02T03:04:05.123456"}}
    with pytest.raises(SourceError, match="DATABASE_VALUE_NOT_REPRESENTABLE"):
        copy.read_table("items")
    connection = Options("test", engine.options).connection()
    with open_source(connection) as source:
        assert [each.condition for each in source.check([ITEMS], LOG)] == ["SQLSERVER_FRACTION_TOO_LONG"]


def test_the_way_of_changes_is_not_changed_in_silence(tmp_path: Path) -> None:
    """An LSN means nothing to change tracking."""
    engine = _engine(tmp_path)
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    engine.connect("?changes=tracking")
    engine.database.track("items")
    with pytest.raises(SourceError, match=r"DATABASE_POSITION_LOST\.SQLSERVER_WAY"):
        copy.follow()


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.lists(_write, min_size=1, max_size=3), st.booleans()), min_size=3, max_size=12))
def test_a_copy_by_change_tracking_converges(steps: list[tuple[list[str], bool]]) -> None:
    """Random transactions: at each end both are equal."""
    with TemporaryDirectory() as folder:
        engine = _engine(Path(folder), "?changes=tracking")
        for table in _TABLES:
            engine.database.track(table)
        run = _Run(engine)
        for statements, follows in steps:
            run.write(statements)
            if follows:
                run.copy.follow()
                assert {table: run.copy.source(table) for table in _TABLES} == run.copy.rows
        engine.database.close()


def test_change_tracking_that_was_cleaned_up_is_a_gap_of_its_tables(tmp_path: Path) -> None:
    """The oldest version that is valid is after the position."""
    engine = _engine(tmp_path, "?changes=tracking")
    for table in _TABLES:
        engine.database.track(table)
    copy = StandInCopy(engine, _TABLES)
    copy.begin()
    engine.execute("DELETE FROM items WHERE id = 1", "UPDATE lines SET n = 4")
    engine.database.clean_up_tracking(int(engine.database.get("versions")))
    copy.follow()
    assert [(table, operation) for table, operation, _ in copy.marks] == [
        ("items", "UNREADABLE"), ("lines", "UNREADABLE"),
    ]  # fmt: skip


def test_change_tracking_refuses_a_copy_with_history(tmp_path: Path) -> None:
    """It has the last state of a row only."""
    engine = _engine(tmp_path, "?changes=tracking")
    engine.database.track("items")
    copy = StandInCopy(engine, ("items",), {"historyTables": "dbo.items"})
    copy.begin()
    with pytest.raises(SourceError, match="SQLSERVER_TRACKING_HISTORY"):
        copy.follow()
