"""Plans of snapshots on PostgreSQL: bounds by walking an index, or by row addresses."""

from __future__ import annotations

import json
from statistics import mean
from time import monotonic, sleep
from typing import Any

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import Bound, Chunk, ChunkKind, SnapshotOffset, chunks_between, percent_done
from framework.sources.databases.postgres.chunks.chunk_sql import (
    ReadLimits,
    condition_sql,
    next_bound_sql,
    search_path_sql,
    settings_sql,
)
from framework.sources.databases.postgres.tables.table_storage import Leaf, TableStorage
from tests.support.database_keys import KEYS, create_table
from tests.support.database_snapshots import World

ROW_BYTES = 150


def fill(world: World, columns: str, values: str, rows: int, analyze: str = "VACUUM ANALYZE t") -> None:
    """Table t with `rows` rows of about 150 bytes."""
    world.run(
        f"CREATE TABLE t ({columns}, payload text)",
        f"INSERT INTO t SELECT {values}, repeat('x', 100) FROM generate_series(1, {rows}) i",
        *([analyze] if analyze else []),
    )


def plan_of(world: World, offset: SnapshotOffset, statement: str) -> list[dict[str, Any]]:
    """The nodes of the plan of a statement, with the settings of chunks, from the root down."""
    with world.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(settings_sql(ReadLimits(), bounded=True))
        cursor.execute(search_path_sql(column.operator_schema for column in offset.basis.key))
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
        node = cursor.fetchone()[0][0]["Plan"]
    nodes = [node]
    while "Plans" in nodes[-1]:
        nodes.append(nodes[-1]["Plans"][0])
    return nodes


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("id integer PRIMARY KEY", "i"),
        ("id text PRIMARY KEY", "i::text"),
        ('id text COLLATE "C" PRIMARY KEY', "i::text"),
        ("id char(9) PRIMARY KEY", "i::text"),
        ("id varchar(9) PRIMARY KEY", "i::text"),
        ("id uuid PRIMARY KEY", "gen_random_uuid()"),
        ("a integer, b text, PRIMARY KEY (a, b)", "i % 7, i::text"),
        ("a date, b numeric(9,2), c timestamptz, PRIMARY KEY (a, b, c)", "date '2020-01-01' + i % 30, i, now()"),
        ("id integer UNIQUE", "i"),
        ("a integer, b integer, UNIQUE (a, b)", "i, i"),
    ],
)
def test_bounds_are_found_in_the_index_alone(database: str, columns: str, values: str) -> None:
    """The walk is an index-only scan from the last bound on; without statistics it is at least a scan of the index."""
    world = World(database)
    fill(world, columns, values, 3000, analyze="")
    offset = world.plan(None, 2, least_rows=200)
    first, second = chunks_between(None, offset)
    statement = next_bound_sql("ONLY t", offset.basis.key, first.upper, 200)
    unanalysed = plan_of(world, offset, statement)
    assert ["Limit", "Index"] == [unanalysed[0]["Node Type"], unanalysed[1]["Node Type"].split()[0]]
    world.run("VACUUM ANALYZE t")
    limit, scan = plan_of(world, offset, statement)
    assert ["Limit", "Index Only Scan"] == [limit["Node Type"], scan["Node Type"]]
    assert ">" in scan["Index Cond"]
    read = plan_of(world, offset, f"SELECT * FROM ONLY t AS chunked WHERE {condition_sql(second, offset.basis.key)}")
    assert {"Index Scan", "Bitmap Heap Scan"} & {node["Node Type"] for node in read}


def test_bounds_of_a_partitioned_table_are_found_in_its_indexes(database: str) -> None:
    """The indexes of the partitions are merged, and nothing is sorted."""
    world = World(database)
    world.run(*create_table(KEYS["partitioned"]))
    world.run("INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 3000) i", "VACUUM ANALYZE t")
    offset = world.plan(None, 1, least_rows=200)
    nodes = plan_of(world, offset, next_bound_sql("t", offset.basis.key, offset.upper_bounds[0], 200))
    assert ["Limit", "Merge Append", "Index Only Scan"] == [node["Node Type"] for node in nodes]


def test_ranges_of_a_composite_key_are_estimated_as_small(database: str) -> None:
    """Two row comparisons alone look like a quarter of the table, for which PostgreSQL would scan all of it."""
    world = World(database)
    fill(world, "a integer, b integer, PRIMARY KEY (a, b)", "i / 10, i % 10", 20_000)
    offset, chunks = world.plan_all(chunk_bytes=1, least_rows=400)
    middle = chunks[len(chunks) // 2]
    statement = f"SELECT * FROM ONLY t AS chunked WHERE {condition_sql(middle, offset.basis.key)}"
    assert plan_of(world, offset, statement)[0]["Plan Rows"] < 1000


def test_rows_without_a_key_are_read_by_ranges_of_addresses(database: str) -> None:
    """A chunk in the middle reads its own blocks only, also of each partition."""
    for name in ("none", "none-partitioned"):
        world = World(database)
        world.run("DROP TABLE IF EXISTS t", *create_table(KEYS[name]))
        world.run("INSERT INTO t SELECT i, i, repeat('x', 300) FROM generate_series(1, 3000) i")
        offset = world.plan(None, 2)
        assert ChunkKind.TID == offset.basis.kind
        chunk = chunks_between(None, offset)[1]
        nodes = plan_of(world, offset, f"SELECT * FROM t AS chunked WHERE {condition_sql(chunk, ())}")
        assert "Tid Range Scan" == nodes[-1]["Node Type"]


@pytest.mark.parametrize("analyze", ["", "VACUUM ANALYZE t"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_chunks_have_the_size_that_was_asked_for(database: str, key: str, analyze: str) -> None:
    """By statistics, and by a sample if there are none; only the last chunk may be smaller."""
    world = World(database)
    fill(world, f"id integer {key}, label integer", "i, i", 20_000, analyze)
    offset, chunks = world.plan_all(chunk_bytes=200_000)
    size = world.rows("SELECT pg_table_size('t')")[0][0]
    sizes = [len(world.read(offset, chunk)) * size / 20_000 for chunk in chunks]
    assert 20_000 * size / 20_000 == pytest.approx(sum(sizes))
    assert all(150_000 < each < 250_000 for each in sizes[:-1])
    assert sizes[-1] < 300_000
    assert 20_000 == pytest.approx(offset.rows_planned, rel=0.1)


def test_narrow_rows_are_not_read_by_the_handful(database: str) -> None:
    """A chunk by key has at least 1,000 rows, however small the target."""
    world = World(database, options={})
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 3500)
    _, chunks = world.plan_all(chunk_bytes=1)
    assert [("1000",), ("2000",), ("3000",), None] == [chunk.upper.values if chunk.upper else None for chunk in chunks]


def test_wide_rows_are_measured_where_they_are_stored(database: str) -> None:
    """Values that are stored out of line count."""
    world = World(database, options={})
    world.run(
        "CREATE TABLE t (id integer PRIMARY KEY, label integer, payload text)",
        "ALTER TABLE t ALTER payload SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, i, repeat('x', 10000) FROM generate_series(1, 500) i",
    )
    offset, chunks = world.plan_all(chunk_bytes=1_000_000, least_rows=1)
    sizes = [len(world.read(offset, chunk)) for chunk in chunks[:-1]]
    assert all(60 < size < 110 for size in sizes)


def test_skewed_keys_give_even_chunks(database: str) -> None:
    """Half of the keys lie in the first millionth of a billionth of their range."""
    world = World(database)
    fill(
        world,
        "id bigint PRIMARY KEY, label integer",
        "CASE WHEN i % 2 = 0 THEN i ELSE 1000000 + i::bigint * 49999950000 END, i",
        20_000,
    )
    offset, chunks = world.plan_all(chunk_bytes=300_000)
    sizes = [len(world.read(offset, chunk)) for chunk in chunks]
    assert 20_000 == sum(sizes)
    assert max(sizes) / mean(sizes[:-1]) < 1.01


HISTOGRAM = """
SELECT unnest(histogram_bounds::text::bigint[])::text FROM pg_stats WHERE tablename = 't' AND attname = 'id'
"""
STATE = "SELECT n_tup_ins, n_mod_since_analyze, last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 't'"


def wait_for(world: World, *, inserted: int, changed: int, analysed: bool) -> None:
    """Wait until the server's counters, which a session reports after its end, are these."""
    deadline = monotonic() + 30
    while world.rows(STATE) != [(inserted, changed, analysed)]:
        assert monotonic() < deadline, world.rows(STATE)
        sleep(0.02)


def test_a_large_table_is_planned_by_its_histogram(database: str) -> None:
    """Bounds are those of the last ANALYZE, in any number of steps; chunks are even, and have each row once."""
    world = World(database)
    values = "CASE WHEN i % 2 = 0 THEN i ELSE 1000000 + i::bigint * 49999950000 END, i"
    fill(world, "id bigint PRIMARY KEY, label integer", values, 20_000, analyze="")
    wait_for(world, inserted=20_000, changed=20_000, analysed=False)
    world.run("ANALYZE t")
    wait_for(world, inserted=20_000, changed=0, analysed=True)
    known = {text for (text,) in world.rows(HISTOGRAM)}
    for most in (3, 100):
        offset, chunks = None, list[Chunk]()
        while offset is None or not offset.finished:
            after = world.plan(offset, most, chunk_bytes=300_000, seeded_rows=1)
            chunks += chunks_between(offset, after)
            offset = after
        uppers = [chunk.upper.values[0] for chunk in chunks if chunk.upper is not None]
        assert len(uppers) - 1 <= len([text for text in uppers if text in known]) > 5
        labels = [world.read(offset, chunk) for chunk in chunks]
        assert list(range(1, 20_001)) == sorted(label for chunk in labels for label in chunk)
        assert max(map(len, labels)) / mean(map(len, labels[:-1])) < 1.5


def test_a_user_who_may_not_read_statistics_plans_without_them(database: str, server: PostgresServer) -> None:
    """The right to them can be revoked; rights to the table are enough."""
    world = World(database)
    fill(world, "id bigint PRIMARY KEY, label integer", "i, i", 5000)
    world.run(
        "REVOKE ALL ON pg_catalog.pg_stats FROM PUBLIC",
        "DO $$ BEGIN CREATE ROLE hardened LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT ON t TO hardened",
    )
    other = World(server.uri(database.rsplit("/", 1)[1], user="hardened"))
    offset, chunks = other.plan_all(chunk_bytes=300_000, seeded_rows=1)
    labels = [label for chunk in chunks for label in other.read(offset, chunk)]
    assert list(range(1, 5001)) == labels
    assert len(chunks) > 1


def test_a_histogram_of_other_rows_is_not_used(database: str) -> None:
    """After many changes, the index is walked, so that the chunks are even."""
    world = World(database)
    fill(world, "id bigint PRIMARY KEY, label integer", "i, i", 5000, analyze="")
    wait_for(world, inserted=5000, changed=5000, analysed=False)
    world.run("ANALYZE t")
    world.run("INSERT INTO t SELECT -i, i, repeat('x', 100) FROM generate_series(1, 20000) i")
    wait_for(world, inserted=25_000, changed=20_000, analysed=True)
    known = {text for (text,) in world.rows(HISTOGRAM)}
    offset, chunks = world.plan_all(chunk_bytes=300_000, seeded_rows=1)
    sizes = [len(world.read(offset, chunk)) for chunk in chunks]
    assert 25_000 == sum(sizes)
    assert max(sizes) / mean(sizes[:-1]) < 1.01
    assert not {chunk.upper.values[0] for chunk in chunks[:3] if chunk.upper is not None} & known


def test_rows_after_the_histogram_are_walked(database: str) -> None:
    """Few rows were inserted since ANALYZE, above all others: the walk goes on where the histogram ends."""
    world = World(database)
    fill(world, "id bigint PRIMARY KEY, label integer", "i, i", 20_000, analyze="")
    wait_for(world, inserted=20_000, changed=20_000, analysed=False)
    world.run("ANALYZE t")
    world.run("INSERT INTO t SELECT i, i, repeat('x', 100) FROM generate_series(20001, 21900) i")
    wait_for(world, inserted=21_900, changed=1900, analysed=True)
    offset, chunks = world.plan_all(chunk_bytes=60_000, seeded_rows=1)
    sizes = [len(world.read(offset, chunk)) for chunk in chunks]
    assert 21_900 == sum(sizes)
    assert max(sizes) / mean(sizes[:-1]) < 1.5


def test_a_plan_may_be_made_in_any_number_of_steps(database: str) -> None:
    """Batches of one chunk in sessions of their own give the chunks of one batch."""
    world = World(database)
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 1000)
    options = {"chunk_bytes": 1, "least_rows": 90}
    _, expected = world.plan_all(**options)
    offset: SnapshotOffset | None = None
    chunks: list[Chunk] = []
    while offset is None or not offset.finished:
        following = world.plan(offset, 1, **options)
        following = SnapshotOffset.from_json(following.to_json())
        chunks.extend(chunks_between(offset, following))
        offset = following
        assert len(chunks) <= len(expected)
    assert expected == tuple(chunks)
    assert offset == world.plan(offset, 1, **options)
    assert 100.0 == percent_done(offset, 1000)


def test_progress_follows_the_plan(database: str) -> None:
    """By the rows of the bounds and the estimate of the table."""
    world = World(database)
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 1000)
    with world.walker(chunk_bytes=1, least_rows=100) as walker:
        estimate = walker.estimate()
        offset = walker.plan(None, most_chunks=4)
    assert 1000 == estimate.rows
    assert world.rows("SELECT pg_table_size('t')")[0][0] == estimate.bytes
    assert 40.0 == percent_done(offset, estimate.rows)


def test_another_server_under_the_same_address_is_not_read(database: str) -> None:
    """Its keys may be others."""
    world = World(database)
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 1000)
    first = world.plan(None, 1)
    with pytest.raises(SourceError) as caught:
        world.plan(first, 1, source_identity="two")
    assert ("SNAPSHOT_SOURCE_CHANGED", "one", "two") == (
        caught.value.condition, caught.value.fields["planned"], caught.value.fields["found"],
    )  # fmt: skip


def test_a_plan_of_another_generation_is_not_continued(database: str) -> None:
    """A resync begins anew."""
    world = World(database)
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 1000)
    first = world.plan(None, 1, generation=1)
    with pytest.raises(SourceError, match="generation 1, not 2"):
        world.plan(first, 1, generation=2)


def test_another_partition_ends_a_plan_by_addresses(database: str) -> None:
    """Its rows may lie at addresses that were read already."""
    world = World(database)
    world.run(
        "CREATE TABLE t (id integer, label integer, payload text) PARTITION BY LIST (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        "INSERT INTO t SELECT 1, i, repeat('x', 300) FROM generate_series(1, 500) i",
    )
    first = world.plan(None, 1)
    world.run("CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)")
    with pytest.raises(SourceError) as caught:
        world.plan(first, 1)
    assert "SNAPSHOT_PLAN_INVALID" == caught.value.condition


def test_partitions_of_different_sizes_share_chunks_of_even_size(database: str) -> None:
    """A chunk is the same range of blocks in each partition; where small ones end, the range of the others grows."""
    world = World(database)
    world.run(
        "CREATE TABLE t (id integer, label integer, payload text) PARTITION BY LIST (id)",
        *(f"CREATE TABLE t{part} PARTITION OF t FOR VALUES IN ({part})" for part in range(4)),
        "INSERT INTO t SELECT CASE WHEN i <= 3000 THEN i % 3 ELSE 3 END, i, repeat('x', 300) "
        "FROM generate_series(1, 12000) i",
        "VACUUM ANALYZE t",
    )
    offset, chunks = world.plan_all(chunk_bytes=400_000)
    sizes = [len(world.read(offset, chunk)) for chunk in chunks]
    assert 12_000 == sum(sizes)
    assert max(sizes) < 1300
    assert len(chunks) <= 14


def test_a_key_without_an_index_is_read_by_addresses(database: str) -> None:
    """Each bound would otherwise scan and sort the table."""
    world = World(database)
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 500)
    table = world.table()
    world.run("ALTER TABLE t DROP CONSTRAINT t_pkey")
    with world.walker_of(table) as walker:
        assert ChunkKind.TID == walker.plan(None, most_chunks=1).basis.kind
        assert () == walker.warnings()


@pytest.mark.parametrize(
    ("version", "heap", "expected"), [(140000, True, True), (130012, True, False), (160000, False, False)]
)
def test_addresses_are_ranges_since_postgresql_14_in_ordinary_tables(version: int, heap: bool, expected: bool) -> None:  # noqa: FBT001 - a parameter
    """Elsewhere the table is one chunk."""
    leaf = Leaf(rows=1, pages=1, blocks=1, size=1, heap=heap)
    storage = TableStorage(
        storage_id="1", partitioned=False, key=(), key_indexed=False, server_version=version, block_size=8192,
        leaves=(leaf,),
    )  # fmt: skip
    assert expected == storage.has_tid_ranges


def test_a_table_in_one_chunk_comes_with_a_warning(database: str) -> None:
    """A table whose rows have no addresses: here a view under the name of the table."""
    world = World(database)
    fill(world, "id integer, label integer", "i, i", 20)
    table = world.table()
    world.run("ALTER TABLE t RENAME TO u", "CREATE VIEW t AS SELECT * FROM u")
    with world.walker_of(table) as walker:
        offset = walker.plan(None, most_chunks=1)
        (warning,) = walker.warnings()
    assert (Chunk(number=1, kind=ChunkKind.WHOLE),) == chunks_between(None, offset)
    assert "SNAPSHOT_IN_ONE_CHUNK" == warning.condition
    assert "public.t is read in one chunk: it has no key, and it is not stored as an ordinary table" in warning.what


def test_a_key_in_a_schema_outside_of_the_path_is_compared_by_its_own_operators(database: str) -> None:
    """Otherwise `>` would be that of text: 'B' lies after 'a' for citext and before it for text."""
    world = World(database)
    world.run(*create_table(KEYS["citext"]))
    world.run("INSERT INTO t VALUES ('a', 1), ('B', 2), ('c', 3), ('D', 4)")
    offset, chunks = world.plan_all(chunk_bytes=1, least_rows=1)
    assert ["a", "B", "c", "D"] == [bound.values[0] for bound in offset.upper_bounds]
    assert [[1], [2], [3], [4], []] == [world.read(offset, chunk) for chunk in chunks]


def test_a_collation_that_ignores_case_keeps_rows_in_one_chunk(database: str) -> None:
    """A bound has one spelling of a key and holds for all of them."""
    world = World(database)
    try:
        world.run("CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except Exception as error:  # noqa: BLE001 - the server says what it was built without
        pytest.skip(f"no ICU: {error}")
    world.run(
        "CREATE TABLE t (id text COLLATE ci PRIMARY KEY, label integer)",
        "INSERT INTO t VALUES ('a', 1), ('B', 2), ('c', 3)",
    )
    offset, chunks = world.plan_all(chunk_bytes=1, least_rows=1)
    world.run("UPDATE t SET id = 'A' WHERE label = 1", "UPDATE t SET id = 'b' WHERE label = 2")
    assert [[1], [2], [3], []] == [world.read(offset, chunk) for chunk in chunks]


def test_offsets_are_readable_json(database: str) -> None:
    """Their form is part of checkpoints: a change of it needs a new version."""
    world = World(database)
    fill(world, "id integer PRIMARY KEY, label integer", "i, i", 100)
    offset = world.plan(None, 1, chunk_bytes=1, least_rows=60, generation=2)
    table = world.table()
    known = {"version": 1, "table": int(table.identity), "member": 0}
    horizon = offset.basis.horizon
    assert horizon.isdecimal()
    assert {
        "version": 1, "kind": "key", "source": "one", "storage": table.storage_id, "generation": 2,
        "continuity": json.dumps(known), "position": 0, "columns": {"id": 1, "label": 2, "payload": 3},
        "stamps": {column.name: column.identity.stamp for column in table.columns},
        "horizon": horizon,
        "key": [{"name": "id", "type": "pg_catalog.int4", "collation": None, "operators": None, "nullable": False}],
        "chunks": 1, "rows": 60, "bounds": [["60"]], "finished": False,
    } == json.loads(offset.to_json())  # fmt: skip
    assert (Bound(("60",)),) == offset.upper_bounds
