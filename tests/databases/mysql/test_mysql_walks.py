"""Plans of chunks on MySQL and MariaDB: for each kind of key, each row is in exactly one chunk, by the index."""

from __future__ import annotations

import random
from typing import Any

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import ChunkKind, SnapshotOffset, chunks_between
from framework.sources.databases.mysql.chunks.chunk_sql import condition_sql, next_bound_sql, relation_sql
from framework.sources.databases.tables import KeyKind
from tests.support.mysql_servers import MysqlServer
from tests.support.mysql_snapshots import SnapshotWorld
from tests.support.seeds import fresh_seed

_ROWS = 60
_SEED = fresh_seed()
_LETTERS = "aAäÄbBzZ ß_-'\\\"\0é€日😀\t~1"
_TYPES = {
    "tinyint": [str(each) for each in range(-30, 30)],
    "int": [str(each * 71_582_788) for each in range(-30, 30)],
    "bigint unsigned": [str(2**64 - 1 - each * 2**58) for each in range(60)],
    "decimal(30,5)": [f"{each * 10**20}.{each:05}" for each in range(-30, 30)],
    "double": [repr(each * 0.1e-300 + each) for each in range(60)] + ["1e300", "-1e-300"],
    "float": [repr(each / 3) for each in range(-30, 30)],
    "date": [f"'20{each:02}-01-31'" for each in range(60)] + ["'0000-00-00'"],
    "datetime(6)": [f"'2024-01-31 10:00:00.{each:06}'" for each in range(60)],
    "timestamp(3)": [f"'2024-10-27 00:{each:02}:00.5'" for each in range(60)],
    "time(6)": [f"'{each * 13}:00:00.000001'" for each in range(-30, 30)],
    "year": [str(each) for each in range(1970, 2030)],
    "bit(20)": [str(each * 1000) for each in range(60)],
    "enum": ["'a'"],
    "varbinary(300)": [f"X'{each:02x}{'00' * (each % 5)}'" for each in range(60)],
    "binary(16)": [f"X'{each:02x}{each * 7 % 256:02x}'" for each in range(60)],
}
_TEXTS = (
    "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "varchar(200) CHARACTER SET latin1 COLLATE latin1_german2_ci",
    "varchar(200) CHARACTER SET utf16 COLLATE utf16_general_ci",
    "varchar(200) CHARACTER SET ucs2 COLLATE ucs2_swedish_ci",
    "char(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "varchar(200) CHARACTER SET sjis COLLATE sjis_japanese_ci",
)
_OWN_TEXTS = {
    True: "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
    False: "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs",
}


@pytest.fixture
def world(mysql_server: MysqlServer, database: str) -> SnapshotWorld:
    """An empty database."""
    return SnapshotWorld(mysql_server, database)


def _texts(seed: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - test data
    return ["".join(draw.choice(_LETTERS) for _ in range(draw.randrange(1, 40))) for _ in range(_ROWS)]


def _assert_each_row_once(world: SnapshotWorld, chunks: list[list[dict[str, Any]]], *, least: int = 3) -> None:
    """Assert that the chunks have all rows, each once, and that there are several."""
    numbers = sorted(row["n"] for chunk in chunks for row in chunk)
    assert [int(row[0]) for row in world.rows("SELECT n FROM t ORDER BY n")] == numbers
    assert len(chunks) >= least


def _assert_by_index(world: SnapshotWorld) -> None:
    """Assert that neither a walk nor a chunk sorts rows, or reads more than its own."""
    (_, plan), *_ = world.plans()
    table = world.describe()
    assert table.index is not None
    chunk = chunks_between(None, plan)[1]
    relation = relation_sql(world.name, table.index.name)
    queries = (
        next_bound_sql(world.name, table.index.name, plan.basis.key, chunk.upper, 13),
        f"SELECT COUNT(*) FROM {relation} WHERE {condition_sql(chunk, plan.basis.key)}",
    )
    for query in queries:
        with world.server.connect(world.database) as opened, opened.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute("FLUSH STATUS")
            cursor.execute(query)
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
            read = sum(int(value) for name, value in cursor.fetchall() if not name.endswith("_deleted"))
        assert read <= 34, query


@pytest.mark.parametrize("kind", [*_TYPES])
def test_a_walk_by_each_type_of_key(world: SnapshotWorld, kind: str) -> None:
    """The text of a bound gives the same key again, and the comparison uses the index."""
    values = _TYPES[kind]
    declared = kind
    if kind == "enum":
        labels = [f"'{chr(97 + number * 7 % 26)}{number}'" for number in range(_ROWS)]
        declared, values = f"enum({', '.join(labels)})", labels
    rows = ", ".join(f"({value}, {number})" for number, value in enumerate(values))
    world.run(f"CREATE TABLE t (k {declared} PRIMARY KEY, n INT)", f"INSERT INTO t VALUES {rows}", "ANALYZE TABLE t")
    text_columns = ["k"] if kind == "date" else []
    _assert_each_row_once(world, world.snapshot(text_columns=text_columns), least=4)
    if kind != "enum":  # both servers find its first row by a scan
        _assert_by_index(world)


@pytest.mark.parametrize("number", range(len(_TEXTS) + 1))
def test_a_walk_by_each_collation(world: SnapshotWorld, number: int) -> None:
    """The order is the server's, whatever it takes as equal, and whatever letters the character set has."""
    kind = (*_TEXTS, _OWN_TEXTS[world.server.is_mariadb])[number]
    world.run(f"CREATE TABLE t (k {kind} PRIMARY KEY, n INT)")
    for place, text in enumerate(_texts(_SEED)):
        # Texts that the collation takes as equal, and letters that the character set lacks, are left out.
        world.run(f"INSERT IGNORE INTO t VALUES (_utf8mb4 X'{text.encode().hex()}', {place})")
    world.run("ANALYZE TABLE t")
    _assert_each_row_once(world, world.snapshot())
    _assert_by_index(world)


def test_a_walk_by_several_columns(world: SnapshotWorld) -> None:
    """Equal values of the first columns may be in several chunks; no comparison of rows scans the index."""
    draw = random.Random(_SEED)  # noqa: S311 - test data
    world.run("CREATE TABLE t (a VARCHAR(9), b BIGINT UNSIGNED, c DATE, n INT, PRIMARY KEY (a, b, c))")
    rows = {(draw.choice("aBc"), draw.choice([0, 7, 2**64 - 1]), draw.randrange(1, 28)) for _ in range(200)}
    values = ", ".join(f"('{a}', {b}, '2024-01-{c:02}', {n})" for n, (a, b, c) in enumerate(sorted(rows)))
    world.run(f"INSERT INTO t VALUES {values}", "ANALYZE TABLE t")
    _assert_each_row_once(world, world.snapshot(), least=5)
    _assert_by_index(world)


def test_a_key_that_may_be_null(world: SnapshotWorld) -> None:
    """Rows with NULL are in a chunk of their own, also if the other column has a value."""
    values = ", ".join(f"({a}, {b}, {n})" for n, (a, b) in enumerate((a, b) for a in range(9) for b in range(5)))
    world.run(
        "CREATE TABLE t (a INT NULL, b INT NULL, n INT, UNIQUE KEY (a, b))",
        f"INSERT INTO t VALUES {values}, (NULL, NULL, 100), (NULL, NULL, 101), (3, NULL, 102), (NULL, 3, 103)",
    )
    chunks = world.snapshot()
    assert world.describe().source.key_kind == KeyKind.NULLABLE_UNIQUE
    _assert_each_row_once(world, chunks)
    assert [100, 101, 102, 103] == sorted(row["n"] for row in chunks[-1])


def test_partitions_are_walked_as_one_table(world: SnapshotWorld) -> None:
    """The walk merges the indexes of the partitions."""
    world.run(
        "CREATE TABLE t (k INT PRIMARY KEY, n INT) PARTITION BY HASH (k) PARTITIONS 4",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, {n})" for n in range(100)),
    )
    table = world.describe().source
    assert (True, 4) == (table.is_partitioned, len(table.storage_id.split(",")))
    _assert_each_row_once(world, world.snapshot(), least=5)


@pytest.mark.parametrize(
    "definition",
    ["(k INT, n INT)", "(k TEXT, n INT, PRIMARY KEY (k(5)))", "(k INT, n INT, UNIQUE KEY (n)) ENGINE = MyISAM"],
    ids=["no key", "a key on prefixes", "MyISAM"],
)
def test_a_table_whose_key_has_no_order_is_one_chunk(world: SnapshotWorld, definition: str) -> None:
    """So is a table without a key; a unique key of another engine is walked."""
    world.run(f"CREATE TABLE t {definition}", "INSERT INTO t VALUES " + ", ".join(f"('{n}', {n})" for n in range(50)))
    is_walked = "MyISAM" in definition
    chunks = world.snapshot()
    _assert_each_row_once(world, chunks, least=3 if is_walked else 1)
    kind = world.plan(None).basis.kind
    assert (ChunkKind.KEY if is_walked else ChunkKind.WHOLE) == kind


def test_names_with_any_letters(world: SnapshotWorld) -> None:
    """Of tables and columns, in statements and in the names of InnoDB's files."""
    other = SnapshotWorld(world.server, world.uri, table="Ör`der %s-1", options=world.options)
    other.run(
        "CREATE TABLE `Ör``der %s-1` (`k``{0}` INT PRIMARY KEY, `n %` INT)",
        "INSERT INTO `Ör``der %s-1` VALUES " + ", ".join(f"({n}, {n})" for n in range(50)),
    )
    assert other.describe().source.identity.isdigit()
    assert [*range(50)] == sorted(row["n %"] for chunk in other.snapshot() for row in chunk)


def test_a_row_filter_is_one_condition(world: SnapshotWorld) -> None:
    """It applies to each chunk; a text that would escape the bounds of a chunk is refused."""
    world.run("CREATE TABLE t (k INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    good = SnapshotWorld(world.server, world.uri, options={**world.options, "row_filter": "n <> 2 -- not two"})
    assert [1, 3] == sorted(int(row[0]) for row in _filtered(good))
    for bad in ("true) OR (true", "n = ", "nope = 1", "n, k"):
        refused = SnapshotWorld(world.server, world.uri, options={**world.options, "row_filter": bad})
        with pytest.raises(SourceError, match="SNAPSHOT_ROW_FILTER_INVALID"):
            refused.plan(None)


def _filtered(world: SnapshotWorld) -> list[tuple[Any, ...]]:
    plan = world.plan(None)
    (chunk,) = chunks_between(None, plan)
    condition = condition_sql(chunk, plan.basis.key, str(world.options["row_filter"]))
    return world.rows(f"SELECT n FROM t WHERE {condition}")


def test_another_table_of_the_name_is_refused(world: SnapshotWorld) -> None:
    """Made again, or exchanged; a column that is added in place keeps the table, an altered one is refused."""
    world.run("CREATE TABLE t (k INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES " + _numbers(50))
    plan = world.plan(None)
    chunk = chunks_between(None, plan)[0]
    reader = world.reader(plan)
    world.run("ALTER TABLE t ADD COLUMN later INT NULL")
    assert 13 == len([row for batch in reader.batches(chunk) for row in batch.to_pylist()])
    world.run("ALTER TABLE t MODIFY n BIGINT")
    for change in ("CREATE TABLE o LIKE t; INSERT INTO o SELECT * FROM t; RENAME TABLE t TO old, o TO t",):
        world.run(*change.split("; "))
        with pytest.raises(SourceError, match="SNAPSHOT_TABLE_REPLACED"):
            world.plan(plan)
        with pytest.raises(SourceError, match="SNAPSHOT_TABLE_REPLACED"):
            list(reader.batches(chunk))


def test_a_column_that_is_altered_in_place_is_refused(world: SnapshotWorld) -> None:
    """Values of before and after would be mixed."""
    world.run("CREATE TABLE t (k INT PRIMARY KEY, n ENUM('a', 'b'))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    plan = world.plan(None)
    reader = world.reader(plan)
    world.run("ALTER TABLE t MODIFY n ENUM('a', 'b', 'c')")
    with pytest.raises(SourceError, match="SNAPSHOT_PLAN_INVALID"):
        list(reader.batches(chunks_between(None, plan)[0]))


def test_another_server_is_refused(world: SnapshotWorld) -> None:
    """Its rows would be mixed with those of the first one."""
    world.run("CREATE TABLE t (k INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES " + _numbers(50))
    plan = world.plan(None).to_json().replace('"source": "one"', '"source": "two"')
    with pytest.raises(SourceError, match="SNAPSHOT_SOURCE_CHANGED"):
        world.plan(SnapshotOffset.from_json(plan))
    read = SnapshotOffset.from_json(plan.replace('"position": 0', '"position": 4'))
    with pytest.raises(SourceError, match="SNAPSHOT_SOURCE_CHANGED"):
        list(world.reader(read).batches(chunks_between(None, read)[0]))


def _numbers(count: int) -> str:
    return ", ".join(f"({n}, {n})" for n in range(count))
