"""Chunks of PostgreSQL tables, read while the tables change."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import (
    BEGINNING,
    Bound,
    Chunk,
    ChunkKind,
    SnapshotOffset,
    chunks_between,
    read_offset,
)
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.postgres.chunk_sql import ReadLimits
from framework.sources.databases.postgres.snapshot_source import ChunkPartition, SnapshotStreamReader
from framework.sources.databases.tables import TableName
from tests.support.database_keys import KEYS, KeyCase, create_table
from tests.support.database_snapshots import MOST_BATCHES, World
from tests.support.full_disk import full_disk

HOSTILE = (
    "'; DROP TABLE t; --",
    "\\",
    "\\'; DROP TABLE t; --",
    "",
    " ",
    "é\u4e2d\U0001f986",
    '"',
    "$$",
    "%s",
    "{0}",
    "a\nb",
)


@dataclass
class Load:
    """Random writes to a table, and what is known of its rows.

    Args:
        cursor: in autocommit mode.
        case: the kind of the table's key.
        random: the source of all choices.
        alive: labels of the rows that are in the table.
        begun: labels of the rows that have been in it since the snapshot began.
    """

    cursor: Any
    case: KeyCase
    random: Random
    alive: set[int] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)
    labels: int = 0

    def insert(self) -> None:
        """Insert a row, unless its key is taken."""
        self.labels += 1
        types = [kind.split(" COLLATE")[0].removesuffix(" NOT NULL") for kind, _ in self.case.columns]
        keys = [draw(self.random) for _, draw in self.case.columns]
        places = ", ".join(f"%s::{kind}" for kind in types)
        self.cursor.execute(
            f"INSERT INTO t VALUES ({places}, %s, repeat('x', %s)) ON CONFLICT DO NOTHING",
            [*keys, self.labels, self.random.randint(0, 400)],
        )
        if self.cursor.rowcount:
            self.alive.add(self.labels)

    def delete(self) -> None:
        """Delete a random row."""
        label = self._any()
        self.cursor.execute("DELETE FROM t WHERE label = %s", [label])
        self.alive.discard(label)
        self.begun.discard(label)

    def update(self) -> None:
        """Change a row but not its key, so that it moves."""
        if self.case.updates:
            self.cursor.execute(
                "UPDATE t SET payload = repeat('y', %s) WHERE label = %s", [self.random.randint(0, 900), self._any()]
            )

    def disturb(self) -> None:
        """A few random writes, sometimes followed by maintenance."""
        for _ in range(self.random.randint(0, 3)):
            self.random.choice([self.insert, self.delete, self.update])()
        if self.random.random() < 0.1:
            self.cursor.execute(self.random.choice(["VACUUM t", "ANALYZE t"]))

    def _any(self) -> int:
        return self.random.choice(sorted(self.alive)) if self.alive else 0


def test_a_lost_connection_is_named(database: str) -> None:
    """Also in the middle of a COPY, so that the caller knows that another attempt may succeed."""
    world = World(database)
    make_table(world, 300_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    batches = world.reader(offset, batch_bytes=50_000).batches(chunk)
    next(batches)
    world.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(SourceError) as caught:
        list(batches)
    assert "DATABASE_UNREACHABLE" == caught.value.condition


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("kind", list(KEYS))
def test_each_row_is_read_exactly_once_whatever_is_written_between_chunks(database: str, kind: str, seed: int) -> None:
    """Each batch is planned by a new session from JSON; replays have the same ranges; each row is in one chunk."""
    random, case, world = Random(f"{kind} {seed}"), KEYS[kind], World(database)  # noqa: S311 - repeatable
    world.run(*create_table(case))
    read: Counter[int] = Counter()
    chunks: list[Chunk] = []
    end: SnapshotOffset | None = None
    with world.cursor() as cursor:
        load = Load(cursor, case, random)
        for _ in range(random.randint(150, 300)):
            load.insert()
        load.begun = set(load.alive)
        while end is None or not end.finished:
            start = end
            size, rows = random.choice([2000, 9000, 30_000]), random.randint(8, 40)
            text = world.plan(start, random.randint(1, 4), chunk_bytes=size, least_rows=rows).to_json()
            end = SnapshotOffset.from_json(text)
            batch = chunks_between(start, end)
            assert batch == chunks_between(read_offset(start.to_json() if start else BEGINNING), read_offset(text))
            for chunk in batch:
                load.disturb()
                read.update(world.read(end, chunk))
            chunks.extend(batch)
            assert len(chunks) < MOST_BATCHES
        load.disturb()
        found = world.chunks_of_rows(end, chunks)
    assert load.alive == set(found)
    assert {} == {label: numbers for label, numbers in found.items() if len(numbers) != 1}
    assert {} == {label: read[label] for label in load.begun if read[label] != 1}
    assert {} == {label: count for label, count in read.items() if count > 1}
    assert list(range(1, len(chunks) + 1)) == [chunk.number for chunk in chunks]
    assert len(chunks) > 2 or kind.startswith("none")


def make_table(
    world: World, rows: int = 500, columns: str = "id integer PRIMARY KEY, label integer, payload text"
) -> None:
    """Table t with keys 1 to `rows`."""
    world.run(
        f"CREATE TABLE {world.name.quoted} ({columns})",
        f"INSERT INTO {world.name.quoted} SELECT i, i, repeat('x', 100) FROM generate_series(1, {rows}) i",
    )


def test_rows_beyond_the_last_bound_are_in_the_last_chunk(database: str) -> None:
    """Rows that are inserted after the plan, with greater keys than any other, are read."""
    world = World(database)
    make_table(world)
    offset, chunks = world.plan_all()
    world.run("INSERT INTO t VALUES (100000, 100000, ''), (-100000, -100000, '')")
    assert [100000] == [label for label in world.read(offset, chunks[-1]) if label > 500]
    assert [-100000] == [label for label in world.read(offset, chunks[0]) if label < 1]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("key", ["PRIMARY KEY", "UNIQUE", ""])
def test_tiny_tables_are_read(database: str, rows: int, key: str) -> None:
    """A table of no row or of one has one chunk, and one more if the key may be NULL."""
    world = World(database)
    make_table(world, rows, f"id integer {key}, label integer, payload text")
    offset, chunks = world.plan_all()
    assert (2 if key == "UNIQUE" else 1) == len(chunks)
    assert list(range(1, rows + 1)) == [label for chunk in chunks for label in world.read(offset, chunk)]


def test_rows_with_one_value_in_the_first_key_column_are_split_by_the_second(database: str) -> None:
    """Chunks end at rows, not at values of the first column."""
    world = World(database)
    world.run(
        "CREATE TABLE t (a integer, b text, label integer, PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT 7, i::text, i FROM generate_series(1, 300) i",
    )
    offset, chunks = world.plan_all(chunk_bytes=1, least_rows=25)
    sizes = [len(world.read(offset, chunk)) for chunk in chunks]
    assert [25] * 12 + [0] == sizes


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_keys_are_bounds_like_any_other(database: str, value: str) -> None:
    """A bound of any text reads the rows up to it, and nothing else happens."""
    world = World(database)
    world.run('CREATE TABLE t (id text COLLATE "C" PRIMARY KEY, label integer)')
    with world.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (%s, 1), (%s, 2)", [value, value + "~"])
    offset = world.plan(None, 1, chunk_bytes=1, least_rows=1)
    assert (Bound((value,)),) == offset.upper_bounds
    (chunk,) = chunks_between(None, offset)
    assert [1] == world.read(offset, chunk)
    rest = chunks_between(offset, world.plan(offset, chunk_bytes=1, least_rows=1))
    assert [2] == [label for part in rest for label in world.read(offset, part)]


@pytest.mark.parametrize(
    "setting", ["standard_conforming_strings = off", "bytea_output = 'escape'", "\"DateStyle\" = 'German'"]
)
def test_settings_of_the_database_do_not_change_bounds(database: str, setting: str) -> None:
    """Settings that change literals or the text of values are overridden or don't matter."""
    world = World(database)
    name = database.rsplit("/", 1)[1]
    world.run(
        "CREATE TABLE t (a text, b bytea, c date, label integer, PRIMARY KEY (a, b, c))",
        "INSERT INTO t SELECT chr(92) || chr(39) || i, decode(lpad(to_hex(i), 4, '0'), 'hex'), DATE '2000-02-01' + i, "
        "i FROM generate_series(1, 60) i",
        f"ALTER DATABASE {name} SET {setting}",
    )
    offset, chunks = world.plan_all(chunk_bytes=1, least_rows=7)
    assert list(range(1, 61)) == sorted(label for chunk in chunks for label in world.read(offset, chunk))
    assert 9 == len(chunks)


def test_names_with_quotes_and_unicode_are_read(database: str) -> None:
    """Of schemas, tables and columns."""
    world = World(database, TableName(schema='s "x"; --', table="t'\\ä"))
    world.run(
        'CREATE SCHEMA "s ""x""; --"',
        f'CREATE TABLE {world.name.quoted} ("k ""1"" \' {{0}} %s" integer PRIMARY KEY, label integer)',
        f"INSERT INTO {world.name.quoted} SELECT i, i FROM generate_series(1, 30) i",
    )
    offset, chunks = world.plan_all(chunk_bytes=1, least_rows=8)
    assert 4 == len(chunks)
    column = 'k "1" \' {0} %s'
    assert list(range(1, 31)) == [value for chunk in chunks for value in world.read(offset, chunk, column)]


def test_tables_that_inherit_are_not_read_with_their_parent(database: str) -> None:
    """The log has their rows under their own names."""
    world = World(database)
    make_table(world, 30)
    world.run("CREATE TABLE child () INHERITS (t)", "INSERT INTO child VALUES (99, 99, '')")
    offset, chunks = world.plan_all()
    assert list(range(1, 31)) == [label for chunk in chunks for label in world.read(offset, chunk)]


def test_a_row_filter_leaves_out_rows_but_not_bounds(database: str) -> None:
    """The chunks are those of the table without a filter; a comment at its end does no harm."""
    world = World(database)
    make_table(world, 100)
    _, unfiltered = world.plan_all()
    row_filter = "label % 10 = 0 OR payload IS NULL -- every tenth"
    offset, chunks = world.plan_all(row_filter=row_filter)
    assert unfiltered == chunks
    labels = [label for chunk in chunks for label in world.read(offset, chunk, row_filter=row_filter)]
    assert list(range(10, 101, 10)) == labels


@pytest.mark.parametrize(
    ("row_filter", "message"),
    [
        ("regoin = 'EU'", 'column "regoin" does not exist'),
        ("label >", "syntax error"),
        ("label", "argument of WHERE must be type boolean"),
        ("true) OR (true", "syntax error"),
        ("true; DROP TABLE t", "syntax error"),
    ],
)
def test_a_wrong_row_filter_is_named_with_the_message_of_the_database(
    database: str, row_filter: str, message: str
) -> None:
    """Already by the plan, before rows are read, also if it would break out of the bounds of a chunk."""
    world = World(database)
    make_table(world, 5)
    with pytest.raises(SourceError, match=message) as caught:
        world.plan(row_filter=row_filter)
    assert "SNAPSHOT_ROW_FILTER_INVALID" == caught.value.condition


def test_a_row_filter_that_fails_at_a_row_is_named(database: str) -> None:
    """An error in data can only be known while rows are read."""
    world = World(database)
    make_table(world, 5)
    offset, (chunk,) = world.plan_all()
    with pytest.raises(SourceError, match="division by zero") as caught:
        world.read(offset, chunk, row_filter="1 / (label - 3) > 0")
    assert "SNAPSHOT_ROW_FILTER_INVALID" == caught.value.condition


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
    ],
)
def test_a_plan_by_key_survives_a_rewrite(database: str, statement: str) -> None:
    """Keys stay what they are, and so do columns that were not altered, or not by a rewrite of the rows."""
    world = World(database)
    make_table(world)
    first = world.plan(None, 2)
    world.run(statement)
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
    ],
)
def test_a_column_with_other_values_under_the_same_name_ends_a_plan(database: str, statement: str) -> None:
    """Chunks before and after would have values of two columns, or of two statements; it does not matter in others."""
    world = World(database)
    make_table(world, columns="id integer PRIMARY KEY, label integer, payload text, other integer")
    first = world.plan(None, 2)
    earlier, later = chunks_between(None, first)
    assert world.read(first, earlier)
    world.run(statement)
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
        with pytest.raises(SourceError, match="rewrote the rows") as caught:
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


def test_a_user_without_rights_is_named(database: str, server: PostgresServer) -> None:
    """With the statement that grants them."""
    world = World(database)
    make_table(world)
    offset, (chunk, *_) = world.plan_all()
    reader_uri = server.uri(database.rsplit("/", 1)[1], user="reader")
    world.run("DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    other = World(reader_uri)
    with pytest.raises(SourceError, match="GRANT SELECT") as caught:
        other.read(offset, chunk)
    assert "DATABASE_PERMISSION" == caught.value.condition


def test_a_locked_table_is_not_waited_for_without_end(database: str) -> None:
    """Reader and planner give up after the lock timeout."""
    world = World(database)
    make_table(world)
    offset, (chunk, *_) = world.plan_all()
    reader = world.reader(offset, limits=ReadLimits(lock_seconds=1))
    opened = psycopg2.connect(database)
    with opened.cursor() as cursor:
        cursor.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError) as caught:
            list(reader.batches(chunk))
    opened.close()
    assert "DATABASE_BUSY" == caught.value.condition


def test_a_chunk_that_takes_too_long_ends(database: str) -> None:
    """So a waiting ALTER TABLE on the source gets its turn; a chunk without bounds has no limit."""
    world = World(database)
    make_table(world, 5)
    offset, (chunk,) = world.plan_all()
    reader = world.reader(offset, limits=ReadLimits(statement_seconds=1), row_filter="pg_sleep(0.4) IS NOT NULL")
    with pytest.raises(SourceError, match="at most 1 s") as caught:
        list(reader.batches(chunk))
    assert "SNAPSHOT_CHUNK_TIMEOUT" == caught.value.condition
    whole = Chunk(number=1, kind=ChunkKind.WHOLE)
    assert 5 == sum(batch.num_rows for batch in reader.batches(whole))


def test_an_abandoned_chunk_holds_no_lock(database: str) -> None:
    """An iterator that is closed in the middle of a COPY leaves nothing open on the server."""
    world = World(database)
    make_table(world, 20_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    batches = world.reader(offset, batch_bytes=50_000).batches(chunk)
    assert next(batches).num_rows < 20_000
    batches.close()  # type: ignore[attr-defined]  # a generator
    altered = threading.Thread(
        target=world.run, args=("SET lock_timeout = '5s'", "ALTER TABLE t ADD more integer"), daemon=True
    )
    altered.start()
    altered.join(10)
    assert not altered.is_alive()
    assert [] == world.rows(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND state <> 'idle' AND backend_type = 'client backend'"
    )


def test_batches_have_the_size_that_was_asked_for(database: str) -> None:
    """Memory is bounded by the batch, not by the chunk."""
    world = World(database)
    make_table(world, 20_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    sizes = [batch.nbytes for batch in world.reader(offset, batch_bytes=100_000).batches(chunk)]
    assert len(sizes) > 15
    assert max(sizes) < 200_000


def test_a_file_has_the_rows_of_its_chunk_and_their_statistics(database: str, tmp_path: Path) -> None:
    """With the statistics that Delta keeps: bounds of what has an order, counts of NULLs, all digits of decimals."""
    world = World(database)
    columns = (
        "id integer PRIMARY KEY, n numeric(38,10), s text, f double precision, g double precision, d date, "
        "ts timestamp, tz timestamptz, b boolean, a integer[], y bytea, z text"
    )
    world.run(
        f"CREATE TABLE t ({columns})",
        "INSERT INTO t VALUES (1, 1234567890123456789012345678.0000000001, repeat('b', 40), 1.5, 'NaN', '1999-12-31', "
        r"'2020-01-01 00:00:00.0015', '2020-01-01 00:00:00.0015+00', true, '{1,2,NULL}', '\x00', NULL), "
        "(2, -5, 'a\"é', -0.25, 2, '0001-01-01', '2020-01-01', '2020-01-01 01:00+02', NULL, NULL, NULL, NULL)",
    )
    offset, (chunk,) = world.plan_all()
    reader = world.reader(offset)
    staged = reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert staged.path is not None
    expected = {
        "numRecords": 2,
        "minValues": {
            "id": 1, "n": Decimal("-5.0000000000"), "s": 'a"é', "f": Decimal("-0.25"), "d": "0001-01-01",
            "ts": "2020-01-01T00:00:00.000", "tz": "2019-12-31T23:00:00.000Z",
        },
        "maxValues": {
            "id": 2, "n": Decimal("1234567890123456789012345678.0000000001"), "s": "b" * 32 + "\U0010ffff",
            "f": Decimal("1.5"), "d": "1999-12-31", "ts": "2020-01-01T00:00:00.002",
            "tz": "2020-01-01T00:00:00.002Z",
        },
        "nullCount": {
            "id": 0, "n": 0, "s": 0, "f": 0, "g": 0, "d": 0, "ts": 0, "tz": 0, "b": 1, "a": 1, "y": 1, "z": 2,
        },
    }  # fmt: skip
    assert expected == json.loads(staged.stats, parse_float=Decimal)
    read = pa.Table.from_batches(reader.batches(chunk))
    assert read.drop_columns("g") == pq.read_table(staged.path).drop_columns("g")  # NaN equals nothing
    assert (2, Path(staged.path).stat().st_size) == (staged.rows, staged.bytes)


def test_a_chunk_that_is_read_twice_gives_two_files(database: str, tmp_path: Path) -> None:
    """No attempt changes a file that another one has written and that may be committed."""
    world = World(database)
    make_table(world, 5)
    offset, (chunk,) = world.plan_all(generation=3)
    first, second = (world.reader(offset).write_parquet(chunk, str(tmp_path), LocalFileSystem()) for _ in range(2))
    assert first.path != second.path
    assert first.stats == second.stats
    assert all("snapshot-0003-00000001-" in str(staged.path) for staged in (first, second))


def test_a_chunk_without_rows_has_no_file(database: str, tmp_path: Path) -> None:
    """Nothing is written."""
    world = World(database)
    make_table(world, 0)
    offset, (chunk,) = world.plan_all()
    staged = world.reader(offset).write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert (None, 0, 0, {"numRecords": 0}) == (staged.path, staged.rows, staged.bytes, json.loads(staged.stats))
    assert [] == list(tmp_path.iterdir())


def test_a_chunk_that_fails_leaves_no_file(database: str, tmp_path: Path) -> None:
    """A value that the type can't hold, or a filter that fails, ends the file that was begun."""
    world = World(database)
    make_table(world, 800_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    reader = world.reader(offset, row_filter="1 / (label - 799999) IS NOT NULL")
    with pytest.raises(SourceError):
        reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert [] == list(tmp_path.iterdir())


def test_a_full_disk_ends_a_chunk_which_is_read_again(database: str, tmp_path: Path) -> None:
    """No part of a file is left, and with space again the chunk has all of its rows."""
    world = World(database)
    make_table(world, 50_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    reader = world.reader(offset)
    with full_disk(10_000), pytest.raises(OSError, match="too large"):
        reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert [] == list(tmp_path.iterdir())
    assert 50_000 == reader.write_parquet(chunk, str(tmp_path), LocalFileSystem()).rows
