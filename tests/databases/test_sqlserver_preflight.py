"""Preflight of SQL Server on the stand-in: each finding has the statement that ends it; connections, and the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mssql_python.connection_string_parser import _ConnectionStringParser

from framework.foundation.errors import SourceError, UserError
from framework.sources.databases.chunks import Bound, Chunk, ChunkKind, KeyColumn
from framework.sources.databases.connections import Connection
from framework.sources.databases.dialects import open_source
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import LogName, SourceSession
from framework.sources.databases.sqlserver.chunks.chunk_sql import chunk_condition, walk_sql
from framework.sources.databases.sqlserver.connecting import changes_way, connection_text, login_seconds
from framework.sources.databases.sqlserver.faults import named_error
from framework.sources.databases.sqlserver.statements import ALLOW_SNAPSHOT, TRACK_DATABASE, enable_tracking
from framework.sources.databases.sqlserver.values.types import MAPPINGS
from framework.sources.databases.tables import TableName
from tests.support.sources import ROOT
from tests.support.sqlserver.engine import StandIn
from tests.support.sqlserver.translation import parsed

LOG = LogName(position="copy", tables="copy")
ITEMS = TableName(schema="dbo", table="items")


def _opened(engine: StandIn) -> SourceSession:
    return open_source(Options("test", engine.options).connection())


def _found(engine: StandIn) -> list[tuple[str, str]]:
    with _opened(engine) as source:
        return [(each.condition, each.statement) for each in source.check([ITEMS], LOG)]


@pytest.fixture
def engine(tmp_path: Path) -> StandIn:
    """A database with one table."""
    made = StandIn(tmp_path)
    made.execute("CREATE TABLE items (id int NOT NULL PRIMARY KEY, n int)")
    return made


def test_a_database_that_is_fit_has_no_finding(engine: StandIn) -> None:
    """A member of db_owner needs no capture instances: they are made."""
    assert _found(engine) == []


def test_a_plain_user_is_given_the_statement_of_each_table(engine: StandIn) -> None:
    """The preflight and the start of the gateway name the same one; afterwards both go on."""
    engine.database.put("is_plain_user", 1)
    ((condition, statement),) = _found(engine)
    assert condition == "SQLSERVER_CAPTURE_MISSING"
    with _opened(engine) as source, pytest.raises(SourceError, match="SQLSERVER_CAPTURE_MISSING") as caught:
        source.ensure_position(LOG, [ITEMS])
    assert statement in caught.value.remedy
    engine.database.put("is_plain_user", None)
    engine.execute(statement)
    engine.database.put("is_plain_user", 1)
    assert _found(engine) == []
    with _opened(engine) as source:
        assert source.ensure_position(LOG, [ITEMS]).order > 0


def test_what_the_server_lacks_is_found(engine: StandIn) -> None:
    """Version, capture, rights on the change tables, a stopped job, a short retention."""
    database = engine.database
    database.put("ProductVersion", "12.0.2000.8")
    assert [name for name, _ in _found(engine)] == ["SQLSERVER_VERSION_TOO_OLD"]
    database.put("ProductVersion", None)
    database.put("denied cdc", 1)
    assert _found(engine)[0][0] == "SQLSERVER_CAPTURE_NOT_READABLE"
    assert _found(engine)[0][1].startswith("GRANT SELECT ON SCHEMA::cdc TO ")
    database.put("denied cdc", None)
    database.raw.execute("UPDATE msdb.cdc_jobs SET retention = 60")
    database.put("minutes", 20)
    assert _found(engine) == [
        ("SQLSERVER_CAPTURE_LATE", "EXEC sys.sp_cdc_start_job @job_type = N'capture'"),
        ("SQLSERVER_CAPTURE_RETENTION", "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080"),
    ]
    engine.execute(*(statement for _, statement in _found(engine)))
    assert _found(engine) == []
    database.raw.execute("UPDATE sys.databases SET is_cdc_enabled = 0")
    assert [name for name, _ in _found(engine)] == ["SQLSERVER_CAPTURE_DISABLED"]


def test_change_tracking_needs_itself_and_snapshots(engine: StandIn) -> None:
    """Of the database, of the table, and snapshot isolation."""
    engine.connect("?changes=tracking")
    engine.database.put("versions", None)
    engine.database.raw.execute("UPDATE sys.databases SET snapshot_isolation_state = 0")
    assert [name for name, _ in _found(engine)] == [
        "SQLSERVER_TRACKING_DISABLED", "SQLSERVER_TRACKING_WITHOUT_SNAPSHOT", "SQLSERVER_TRACKING_MISSING",
    ]  # fmt: skip
    with _opened(engine) as source, pytest.raises(Exception, match="SQLSERVER_TRACKING_MISSING"):
        source.ensure_position(LOG, [ITEMS])


def test_tables_that_are_hard_to_copy_are_found(tmp_path: Path) -> None:
    """Without a key, with NULL in a key, with partitions that may be switched, without rights."""
    engine = StandIn(tmp_path)
    engine.execute("CREATE TABLE items (id int, n int)")
    assert _found(engine) == [("DATABASE_TABLE_WITHOUT_KEY", "")]
    engine.execute("DROP TABLE items", "CREATE TABLE items (id int UNIQUE, n int)")
    assert _found(engine) == [
        ("DATABASE_KEY_NULLABLE", "ALTER TABLE [dbo].[items] ALTER COLUMN [id] int NOT NULL"),
    ]
    with engine.database.transaction():
        engine.database.enable("items", "own", switch=True)
    number = engine.database.object_id("items")
    engine.database.raw.execute("INSERT INTO sys.partitions VALUES (?, ?, 1, 0)", [number + 1, number])
    engine.database.put("denied [dbo].[items]", 1)
    found = [name for name, _ in _found(engine)]
    assert found == ["SQLSERVER_PARTITION_SWITCH", "DATABASE_SELECT_MISSING", "DATABASE_KEY_NULLABLE"]


def test_the_begin_of_an_instance_is_waited_for(engine: StandIn) -> None:
    """A position is after the begin of its instances, also if the capture job has not come there."""
    engine.database.captures = False
    with _opened(engine) as source:
        end = source.settled_position(LOG) if engine.database.get("captured") > 1 else None
        position = source.ensure_position(LOG, [ITEMS])
    ((begin,),) = engine.database.rows("SELECT start_lsn FROM cdc.change_tables")
    assert bytes.fromhex(position.text.replace(":", "")) >= begin
    assert end is None or end.order < position.order


def test_a_filter_that_the_server_refuses_is_named(engine: StandIn) -> None:
    """By its own text; no row is read."""
    with _opened(engine) as source:
        source.check_filter(ITEMS, "n > 1 -- few")
        with pytest.raises(SourceError, match="SNAPSHOT_ROW_FILTER_INVALID"):
            source.check_filter(ITEMS, "m > 1")


def test_keys_that_a_table_lacks_are_found(engine: StandIn) -> None:
    """By their text, in one statement for many."""
    engine.execute("INSERT INTO items VALUES (1, 1), (3, 3)")
    with _opened(engine) as source:
        table = source.read_table(ITEMS)
        assert source.missing_keys(table, ["id"], [["1"], ["2"], ["3"], ["4"]], ()) == [1, 3]


def test_the_conditions_of_chunks_are_searched_in_an_index() -> None:
    """The first column stands alone in front; a text has the code page of its column; NULL is in no range."""
    key = (
        KeyColumn(name="a", type_name="varchar(5)", collation="Latin1_General_CI_AS"),
        KeyColumn(name="b]", type_name="datetime2(3)", nullable=True),
    )
    chunk = Chunk(number=1, kind=ChunkKind.KEY, lower=Bound(("x", "2026-01-01 00:00:00.000")))
    text, values = chunk_condition(chunk, key, "a <> 'z' -- not z")
    first = "CONVERT(varchar(5), ? COLLATE Latin1_General_CI_AS)"
    assert text == (
        f"([b]]] IS NOT NULL) AND ([a] >= {first} AND ([a] > {first} OR ([b]]] > CONVERT(datetime2(3), ?, 121)))) "
        "AND (\na <> 'z' -- not z\n)"
    )
    assert values == ["x", "x", "2026-01-01 00:00:00.000"]
    parsed(f"SELECT 1 FROM t WHERE {text}")
    parsed(walk_sql(ITEMS, key, Bound(("x", "y")), 1000)[0])
    assert chunk_condition(Chunk(number=2, kind=ChunkKind.NULL_KEY), key, None) == ("([b]]] IS NULL)", [])


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlserver://joe:a%3Bb%7D@db.example.com:1433/shop",
         {"Server": "db.example.com,1433", "Database": "shop", "Encrypt": "yes", "UID": "joe",
          "PWD": "a;b}"}),
        ("sqlserver://localhost/shop?changes=tracking&applicationIntent=ReadOnly",
         {"Server": "localhost", "Database": "shop", "Encrypt": "yes",
          "TrustServerCertificate": "yes", "ApplicationIntent": "ReadOnly"}),
    ],
)  # fmt: skip
def test_the_driver_reads_the_connection_string(uri: str, expected: dict[str, str]) -> None:
    """Encrypted by default; a password may have any characters."""
    found = _ConnectionStringParser()._parse(connection_text(Connection(name="shop", uri=uri)))
    assert {name.lower(): value for name, value in found.items()} == {
        name.lower(): value for name, value in expected.items()
    }


def test_an_unknown_parameter_is_refused() -> None:
    """A word that is wrong would read the database in another way than it says."""
    for query in ("changes=tracing", "chnges=tracking", "loginTimeout=soon"):
        connection = Connection(name="shop", uri=f"sqlserver://db/shop?{query}")
        with pytest.raises(UserError, match="SQLSERVER_PARAMETER_INVALID"):
            _ = (connection_text(connection), changes_way(connection), login_seconds(connection))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("[Microsoft][SQL Server]Login failed for user 'joe'.", "DATABASE_LOGIN_REFUSED"),
        ('[Microsoft][SQL Server]Cannot open database "x" requested by the login. The login failed.',
         "DATABASE_NOT_FOUND"),
        ("[Microsoft][SQL Server]Invalid object name 'dbo.items'.", "DATABASE_TABLE_MISSING"),
        ("[Microsoft][SQL Server]The SELECT permission was denied on the object 'items'", "DATABASE_PERMISSION"),
        ("[Microsoft][SQL Server]Transaction was deadlocked on lock resources", "DATABASE_BUSY"),
        ("[Microsoft]SSL Provider: certificate verify failed:self-signed certificate", "DATABASE_TLS_FAILED"),
        ("[Microsoft]TCP Provider: Error code 0x274C", "DATABASE_UNREACHABLE"),
        ("[Microsoft][SQL Server]Incorrect syntax near 'x'.", "DATABASE_QUERY_FAILED"),
    ],
)  # fmt: skip
def test_errors_of_the_driver_are_named(text: str, condition: str) -> None:
    """By the text of the server, without the password."""
    connection = Connection(name="shop", uri="sqlserver://joe:hunter22@db/shop")
    found = named_error(f"{text} hunter22", connection, table=ITEMS, connecting=False)
    assert found.condition == condition
    assert "hunter22" not in str(found)


def test_the_page_has_every_type_and_its_set_up_works(engine: StandIn) -> None:
    """The table of types has the lines of the code; change data capture is set up by its statements."""
    page = (ROOT / "docs/sqlserver.md").read_text("utf-8")
    lines = [f"| {', '.join(each.names)} | {each.spark} | {each.note} |" for each in MAPPINGS]
    assert "\n".join(lines) in page
    set_up, of_tables, of_tracking = (
        [each.strip() for each in block.split(";") if each.strip()]
        for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    )
    engine.database.raw.execute("UPDATE sys.databases SET is_cdc_enabled = 0")
    engine.execute("CREATE TABLE orders (id int NOT NULL PRIMARY KEY)", *set_up, of_tables[1])
    assert _found(engine) == []
    assert of_tables[0] == "GRANT SELECT ON SCHEMA::cdc TO [user]"
    orders = TableName(schema="dbo", table="orders")
    assert of_tracking == [TRACK_DATABASE, ALLOW_SNAPSHOT, enable_tracking(orders)]
