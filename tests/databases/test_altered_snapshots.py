"""Tables that are altered while their chunks are read: chunks of two definitions are never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import (
    chunks_between,
)
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.streams.snapshot_stream import ChunkPartition, SnapshotStreamReader
from tests.support.database_snapshots import World, make_table


def condition_of(world: World, statement: str, row_filter: str | None = None) -> tuple[str, str]:
    """The condition of reading a chunk and that of planning on, after a statement in mid-snapshot."""
    first = world.plan(None, 1)
    (chunk,) = chunks_between(None, first)
    reader = world.reader(first, row_filter=row_filter)
    table = world.table()
    world.run(statement)
    with pytest.raises(SourceError) as reading:
        list(reader.batches(chunk))
    with world.walker_of(table) as walker, pytest.raises(SourceError) as planning:
        walker.plan(first, most_chunks=1)
    return reading.value.condition, planning.value.condition


@pytest.mark.parametrize("row_filter", [None, "id > 0"])
def test_a_table_that_vanishes_is_named(database: str, row_filter: str | None) -> None:
    """By reader and planner, with and without a filter."""
    world = World(database)
    make_table(world)
    assert ("DATABASE_TABLE_MISSING", "DATABASE_TABLE_MISSING") == condition_of(world, "DROP TABLE t", row_filter)


@pytest.mark.parametrize("row_filter", [None, "id > 0"])
def test_a_column_that_vanishes_is_named(database: str, row_filter: str | None) -> None:
    """The reader names it, with and without a filter that does not use it."""
    world = World(database)
    make_table(world)
    first = world.plan(None, 1)
    (chunk,) = chunks_between(None, first)
    reader = world.reader(first, row_filter=row_filter)
    world.run("ALTER TABLE t DROP payload")
    with pytest.raises(SourceError, match="payload") as caught:
        list(reader.batches(chunk))
    assert "DATABASE_COLUMN_MISSING" == caught.value.condition


@pytest.mark.parametrize(
    ("columns", "statement"),
    [
        ("id integer PRIMARY KEY, label integer, payload text", "ALTER TABLE t DROP id"),
        ("id integer PRIMARY KEY, label integer, payload text", "ALTER TABLE t ALTER id TYPE text"),
        ("id text PRIMARY KEY, label integer, payload text", 'ALTER TABLE t ALTER id TYPE text COLLATE "C"'),
        ("id integer, label integer, payload text", "VACUUM FULL t"),
        ("id integer, label integer, payload text", "TRUNCATE t"),
        ("id integer, label integer, payload text", "ALTER TABLE t ALTER label TYPE bigint"),
    ],
)
def test_a_plan_ends_when_its_basis_changes(database: str, columns: str, statement: str) -> None:
    """A key of another type or collation, or rows at other addresses, would give other ranges under the same bounds."""
    world = World(database)
    make_table(world, columns=columns)
    assert ("SNAPSHOT_PLAN_INVALID", "SNAPSHOT_PLAN_INVALID") == condition_of(world, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM FULL t",
        "CLUSTER t USING t_pkey",
        "ALTER TABLE t ALTER payload TYPE bigint USING 1",
        "ALTER TABLE t ALTER label SET STATISTICS 9",
        "ALTER TABLE t ALTER label SET STATISTICS 9; VACUUM FULL t; VACUUM FREEZE t",
        "GRANT SELECT (label) ON t TO public; UPDATE t SET payload = '' WHERE id > 20; CLUSTER t USING t_pkey",
    ],
)
def test_a_plan_by_key_survives_a_rewrite(database: str, statement: str) -> None:
    """Keys stay what they are, and so do columns that were not altered, or not by a rewrite of the rows."""
    world = World(database)
    make_table(world)
    first = world.plan(None, 2)
    world.run(*statement.split("; "))
    last = world.plan(first)
    chunks = chunks_between(None, first) + chunks_between(first, last)
    assert list(range(1, 501)) == [label for chunk in chunks for label in world.read(last, chunk)]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t DROP label; ALTER TABLE t ADD label integer",
        "ALTER TABLE t RENAME label TO old; ALTER TABLE t ADD label integer",
        "ALTER TABLE t RENAME label TO x; ALTER TABLE t RENAME other TO label; ALTER TABLE t RENAME x TO other",
        "ALTER TABLE t ALTER label TYPE integer USING label + 1000",
        "ALTER TABLE t ALTER label TYPE integer USING 1; ALTER TABLE t ALTER label SET STATISTICS 9; VACUUM FULL t",
        "BEGIN; SAVEPOINT s; ALTER TABLE t ALTER label TYPE integer USING 1; COMMIT; VACUUM FREEZE t",
        # Perhaps another statement has changed the values: no row is left that would show it.
        "ALTER TABLE t ALTER label SET STATISTICS 9; UPDATE t SET label = label; VACUUM FULL t",
    ],
)
def test_a_column_with_other_values_under_the_same_name_ends_a_plan(database: str, statement: str) -> None:
    """Chunks before and after would have values of two columns, or of two statements; it does not matter in others."""
    world = World(database)
    make_table(world, columns="id integer PRIMARY KEY, label integer, payload text, other integer")
    first = world.plan(None, 2)
    earlier, later = chunks_between(None, first)
    assert world.read(first, earlier)
    with world.cursor() as cursor:
        for each in statement.split("; "):
            cursor.execute(each)
    with pytest.raises(SourceError, match="label") as caught:
        world.read(first, later)
    assert caught.value.condition == "SNAPSHOT_PLAN_INVALID"
    assert world.read(first, later, "payload")
    world.run("ALTER TABLE t ADD added integer")
    assert set(world.read(first, later, "added")) == {None}


def test_a_type_that_changes_between_batches_is_named(database: str, folder: Path) -> None:
    """Values of the new type could be read as those of the old one: '007' would become 7."""
    world = World(database)
    world.run(
        "CREATE TABLE t (id bigint PRIMARY KEY, label numeric(9,2))",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i",
    )
    options = {"connection": "bank", "table": "t", "connectionsFolder": str(folder), "chunkBytes": "1k"}
    request = snapshot_request({**options, "maxChunksPerTrigger": "1"})
    reader = SnapshotStreamReader(request, ("id", "label"), {"id": "bigint", "label": "decimal(9,2)"})
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert 1 == len(reader.partitions(reader.initialOffset(), first))
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    for retyped, condition in (
        ("numeric(11,2)", "SNAPSHOT_COLUMN_CHANGED"),
        ("text USING lpad(label::text, 9, '0')", "SNAPSHOT_PLAN_INVALID"),  # the rows are rewritten
    ):
        world.run(f"ALTER TABLE t ALTER label TYPE {retyped}")
        with pytest.raises(SourceError) as caught:
            reader.partitions(first, second)
        assert condition == caught.value.condition


@pytest.mark.parametrize(
    ("before", "after", "is_rewritten"),
    [
        ("integer", "text USING lpad(label::text, 9, '0')", True),
        ("integer", "bigint", True),
        ("text", "bigint USING label::bigint", True),
        ("numeric(12,2)", "numeric(14,4)", True),
        ("numeric(12,2)", "numeric(14,2)", False),
        ("double precision", "integer", True),
        ("text[]", "integer[] USING label::integer[]", True),
    ],
)
def test_a_type_that_changes_after_the_check_of_its_batch_is_named(
    database: str, folder: Path, before: str, after: str, *, is_rewritten: bool
) -> None:
    """A chunk checks its types in its own transaction; a rewrite ends the plan, because it computes values anew."""
    world = World(database)
    value = "ARRAY[i::text]" if "[]" in before else "i"
    world.run(
        f"CREATE TABLE t (id bigint PRIMARY KEY, label {before})",
        f"INSERT INTO t SELECT i, {value} FROM generate_series(1, 500) i",
    )
    request = snapshot_request({"connection": "bank", "table": "t", "connectionsFolder": str(folder)})
    reader = SnapshotStreamReader(request, ("id", "label"))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (part,) = reader.partitions(reader.initialOffset(), end)
    assert isinstance(part, ChunkPartition)
    world.run(f"ALTER TABLE t ALTER label TYPE {after}")
    condition = "SNAPSHOT_PLAN_INVALID" if is_rewritten else "SNAPSHOT_COLUMN_CHANGED"
    with pytest.raises(SourceError) as caught:
        list(reader.read(part))
    assert condition == caught.value.condition
    with pytest.raises(SourceError) as caught:
        request.reader(part).write_parquet(part.chunk, str(folder), LocalFileSystem())
    assert condition == caught.value.condition
    assert [] == list(folder.glob("*.parquet"))
    again = SnapshotStreamReader(request, ("id", "label"))
    if is_rewritten:  # an update that is analysed with the new type does not go on either
        with pytest.raises(SourceError) as caught:
            again.partitions(reader.initialOffset(), end)
        assert condition == caught.value.condition
        end = again.latestOffset(again.initialOffset(), again.getDefaultReadLimit())
    (part,) = again.partitions(reader.initialOffset(), end)
    labels = [str(label) for batch in reader.read(part) for label in batch.column("label").to_pylist()]
    assert sorted(str(row[0]) for row in world.rows("SELECT label FROM t")) == sorted(labels)


@pytest.mark.parametrize(
    ("before", "after", "text_columns"),
    [
        ("varchar(9)", "varchar(20)", ""),
        ("varchar(9)", "text", ""),
        ("numeric(12,2)", "numeric(14,2)", "label"),
        ("date", "text USING 'on ' || label", ""),
        ("uuid", "varchar USING label::text", ""),
        ("varchar(9)", "char(12)", ""),
        ("integer", "bigint", "label"),
    ],
)
def test_a_change_to_a_type_of_the_same_spark_type_is_read_by_the_new_one_unless_rows_are_rewritten(
    database: str, folder: Path, before: str, after: str, text_columns: str
) -> None:
    """Chunks before and after a rewrite would have values of two statements."""
    world = World(database)
    value = {"date": "date '2020-01-01' + i", "uuid": "gen_random_uuid()"}.get(before, "i")
    world.run(
        f"CREATE TABLE t (id bigint PRIMARY KEY, label {before})",
        f"INSERT INTO t SELECT i, {value} FROM generate_series(1, 50) i",
    )
    options = {"connection": "bank", "table": "t", "connectionsFolder": str(folder)}
    text = {"textColumns": "label"} if text_columns or before == "date" else {}
    reader = SnapshotStreamReader(snapshot_request({**options, **text}), ("id", "label"))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (part,) = reader.partitions(reader.initialOffset(), end)
    world.run(f"ALTER TABLE t ALTER label TYPE {after}")
    if after not in ("varchar(20)", "text", "numeric(14,2)"):
        with pytest.raises(SourceError, match="rows were rewritten") as caught:
            list(reader.read(part))
        assert caught.value.condition == "SNAPSHOT_PLAN_INVALID"
        return
    labels = [label for batch in reader.read(part) for label in batch.column("label").to_pylist()]
    assert sorted(row[0] for row in world.rows("SELECT concat(label) FROM t")) == sorted(labels)


@pytest.mark.parametrize(
    ("alteration", "row_filter"),
    [
        ("ALTER id TYPE bigint USING 51 - id", None),
        ("DROP id; ALTER TABLE t ADD id bigint; UPDATE t SET id = n; ALTER TABLE t ADD PRIMARY KEY (id)", None),
        ("ALTER n TYPE bigint USING 51 - n", "n <= 20"),
    ],
)
def test_columns_that_choose_the_rows_of_a_chunk_are_checked_although_they_are_not_read(
    database: str, folder: Path, alteration: str, row_filter: str | None
) -> None:
    """Chunks before and after would have rows twice, or lack some."""
    world = World(database)
    world.run(
        "CREATE TABLE t (id bigint PRIMARY KEY, n bigint, label text)",
        "INSERT INTO t SELECT i, i, i FROM generate_series(1, 50) i",
    )
    options = {"connection": "bank", "table": "t", "connectionsFolder": str(folder), "columns": "label"}
    options |= {} if row_filter is None else {"rowFilter": row_filter}
    reader = SnapshotStreamReader(snapshot_request(options), ("label",))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (part,) = reader.partitions(reader.initialOffset(), end)
    assert sum(batch.num_rows for batch in reader.read(part)) == (50 if row_filter is None else 20)
    world.run(f"ALTER TABLE t {alteration}")
    with pytest.raises(SourceError) as caught:
        list(reader.read(part))
    assert caught.value.condition == "SNAPSHOT_PLAN_INVALID"
