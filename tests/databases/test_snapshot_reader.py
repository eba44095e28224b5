"""Chunks of PostgreSQL tables, read while the tables change: each row is in one chunk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import (
    BEGINNING,
    Bound,
    Chunk,
    SnapshotOffset,
    chunks_between,
    read_offset,
)
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.key_lookup import missing_keys
from framework.sources.databases.tables import TableName
from tests.support.database_keys import KEYS, KeyCase, create_table
from tests.support.database_snapshots import MOST_BATCHES, World, make_table
from tests.support.postgres_log import brief, position, reader

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


def test_what_was_read_stays_at_the_source_if_the_server_crashes(tmp_path: Path) -> None:
    """With `synchronous_commit = off`, readers see commits that a crash takes away, and that the log never has."""
    with PostgresServer({"synchronous_commit": "off", "wal_writer_delay": "10000"}) as server:
        world = World(server.uri())
        make_table(world, 20)
        world.run("ALTER TABLE t ALTER payload SET STORAGE EXTERNAL", "UPDATE t SET payload = repeat('y', 9000)")
        start = position(world.uri, "t")

        def crash() -> None:
            server.stop("immediate")
            server.start()

        log = reader(world.uri, start, tmp_path / "spool")
        before = log.read_transactions(start.lsn)
        world.run("SET synchronous_commit = on; UPDATE t SET label = 0 WHERE id = 3")
        world.run("UPDATE t SET payload = 'new' WHERE id = 3")
        found = brief(log.read_transactions(before.end))
        crash()
        log.close()
        assert [(row["payload"],) for _, _, row in found] == world.rows("SELECT payload FROM t WHERE id = 3")

        world.run("INSERT INTO t VALUES (21, 21, ''); DELETE FROM t WHERE id = 1")
        offset, chunks = world.plan_all(position=start.lsn)
        labels = [label for chunk in chunks for label in world.read(offset, chunk)]
        crash()
        assert sorted(labels) == [label for (label,) in world.rows("SELECT label FROM t ORDER BY 1")]

        world.run("DELETE FROM t WHERE id = 2")
        with Session(world.connection) as session:
            assert missing_keys(session, world.table(), ("id",), [["2"], ["3"]]) == [0]
        crash()
        assert world.rows("SELECT id FROM t WHERE id < 4") == [(3,)]


_IN_FRONT = (
    "CREATE SCHEMA front",
    "CREATE DOMAIN front.text AS int",
    "CREATE TABLE front.pg_class (oid int)",
    "CREATE FUNCTION front.pg_is_in_recovery() RETURNS bool RETURN true",
    "CREATE FUNCTION front.same(pg_catalog.text, pg_catalog.text) RETURNS bool RETURN false",
    "CREATE OPERATOR front.= (FUNCTION = front.same, LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text)",
    # Fit better than those of pg_catalog, which are for text.
    "CREATE FUNCTION front.differ(varchar, varchar) RETURNS bool RETURN false",
    *(
        f"CREATE OPERATOR front.{name} (FUNCTION = front.differ, LEFTARG = varchar, RIGHTARG = varchar)"
        for name in (">", "<=", ">=", "=")
    ),
    # So does this.
    "CREATE FUNCTION public.quote_ident(name) RETURNS pg_catalog.text RETURN 'wrong'",
    "CREATE FUNCTION public.is_kept(int) RETURNS bool RETURN $1 <> 3",
)


def test_schemas_of_the_role_s_path_do_not_replace_the_catalog(database: str, tmp_path: Path) -> None:
    """Only row filters, and the names of tables in values, depend on the path: keys are compared as in their index."""
    world = World(database)
    path = "front, pg_catalog, public"
    world.run(
        "CREATE TABLE t (id varchar(9) PRIMARY KEY, label integer, place regclass, large text)",
        "INSERT INTO t SELECT i, i, 't', repeat('x', 9000) FROM generate_series(1, 5) AS i",
        "ALTER TABLE t ALTER large SET STORAGE EXTERNAL",
        *_IN_FRONT,
        f"ALTER DATABASE {database.rpartition('/')[2]} SET search_path = {path}",
    )
    start = position(database, "t")
    offset, chunks = world.plan_all(row_filter="is_kept(label)", chunk_bytes=1, least_rows=1)
    assert len(chunks) > 4
    read = world.reader(offset, None, row_filter="is_kept(label)").batches
    rows = [row for chunk in chunks for batch in read(chunk) for row in batch.to_pylist()]
    assert [(label, "t") for label in (1, 2, 4, 5)] == sorted((row["label"], row["place"]) for row in rows)
    with Session(world.connection) as session:
        assert missing_keys(session, world.table(), ("id",), [["2"], ["7"]]) == [1]
    world.run("UPDATE public.t SET label = 6 WHERE label = 5")
    log = reader(database, start, tmp_path / "spool")
    [(_, operation, row)] = brief(log.read_transactions(start.lsn))
    log.close()
    assert ("UPDATE", 6, "t", 9000) == (operation, row["label"], row["place"], len(row["large"]))
