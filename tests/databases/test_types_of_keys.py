"""Keys of all types: chunks by them have each row once, and the copies of their tables follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType

from framework import Pipeline
from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import ChunkKind, chunks_between
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.chunks.boundaries import BoundaryWalker
from framework.sources.databases.postgres.chunks.chunk_sql import condition_sql, search_path_sql
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import read_tables
from framework.sources.databases.postgres.tables.key_lookup import missing_keys
from framework.sources.databases.tables import SourceTable, TableName
from tests.support.copied_tables import copy_rows, failures, pipeline_of
from tests.support.postgres_key_types import ENDLESS, KEY_TYPES, ROWS, SCHEMA, KeyType, with_domains
from tests.support.postgres_log import brief, execute, position, query, reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
MODULE = """
from framework import pipelines as dp

def table(name, **configuration):
    source = {"source_schema": "public", "source_table": name, "destination_schema": "copies"}
    return {"table": {**source, "table_configuration": configuration}}

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[table("keyed", text_columns=TEXTS)],
    options={"chunkBytes": "1"},
)
"""


def check_chunks(uri: str, types: Sequence[KeyType]) -> None:
    """Check that each row is in exactly one of three chunks, as the source decides, for each type of a key."""
    names = _create(uri, types)
    execute(
        uri,
        *(
            f"INSERT INTO {name.quoted} SELECT DISTINCT ON (1) {kind.value} AS k, i FROM generate_series(1, 9) i"
            for name, kind in names.items()
        ),
    )
    wrong = {}
    with Session(Connection(name="test", uri=uri)) as session:
        for name, table in read_tables(session, [*names]).items():
            assert not isinstance(table, SourceError)
            try:
                found = _chunks(session, table)
            except SourceError as error:
                wrong[names[name].name] = str(error)
                continue
            if sorted(found) != [[number] for number in (1, 1, 1, 2, 2, 2, 3, 3, 3)][: len(found)]:
                wrong[names[name].name] = str(found)
    assert {} == wrong


def _chunks(session: Session, table: SourceTable, change: Callable[[], object] = lambda: None) -> list[list[int]]:
    """Return the numbers of the chunks that have each row; they are read after a change of the database."""
    walker = BoundaryWalker(session, table, source_identity="one", chunk_bytes=1, least_rows=3)
    offset = walker.plan(None, most_chunks=9)
    assert (ChunkKind.KEY, True) == (offset.basis.kind, offset.finished)
    change()
    parts = [
        f"CASE WHEN {condition_sql(each, offset.basis.key)} THEN {each.number} END"
        for each in chunks_between(None, offset)
    ]
    path = search_path_sql(column.operator_schema for column in offset.basis.key)
    read = f"SELECT array_remove(ARRAY[{', '.join(parts)}], NULL) FROM {table.name.quoted} AS chunked"
    return [row[0] for row in session.rows(f"{path}; {read}")]


def _create(uri: str, types: Sequence[KeyType]) -> dict[TableName, KeyType]:
    """Make a table for each type."""
    names = {TableName(schema="public", table=f"t{number}"): kind for number, kind in enumerate(types)}
    columns = "label INT, big TEXT"
    execute(
        uri, *(f"CREATE TABLE {name.quoted} (k {kind.name} PRIMARY KEY, {columns})" for name, kind in names.items())
    )
    execute(uri, *(f"ALTER TABLE {name.quoted} ALTER big SET STORAGE EXTERNAL" for name in names))
    return names


def _types(uri: str, types: Mapping[str, str] = KEY_TYPES) -> list[KeyType]:
    execute(uri, *SCHEMA)
    return [*with_domains(types, partial(execute, uri))]


def test_chunks_by_keys_of_any_type_have_each_row_once(database: str) -> None:
    """Bare, and in a domain over a domain."""
    check_chunks(database, _types(database))


def test_chunks_by_keys_that_are_objects_stay_when_the_objects_go(database: str) -> None:
    """An object that is dropped, or exchanges its name with another one, between the plan and the chunks."""
    execute(
        database,
        "CREATE TABLE t (k regclass PRIMARY KEY)",
        *(f"CREATE TABLE part_{number} ()" for number in range(9)),
        "INSERT INTO t SELECT format('part_%s', i)::regclass FROM generate_series(0, 8) i",
    )
    name = TableName(schema="public", table="t")
    with Session(Connection(name="test", uri=database)) as session:
        table = read_tables(session, [name])[name]
        assert not isinstance(table, SourceError)

        def change() -> None:
            renamed = ("part_5 RENAME TO part", "part_0 RENAME TO part_5")
            execute(database, "DROP TABLE part_2", *(f"ALTER TABLE {each}" for each in renamed))

        assert [[number] for number in (1, 1, 1, 2, 2, 2, 3, 3, 3)] == sorted(_chunks(session, table, change))


def test_rows_are_looked_up_by_keys_of_any_type(database: str, tmp_path: Path) -> None:
    """The log's text of a key finds its row: for large values that the log left out, and for partial resyncs."""
    types = _types(database)
    names = _create(database, types)
    execute(
        database,
        *(
            f"INSERT INTO {name.quoted} SELECT {kind.value}, i, repeat('x', 9000) FROM (VALUES (2)) AS g(i)"
            for name, kind in names.items()
        ),
    )
    start = position(database, *(name.table for name in names))
    execute(database, *(f"UPDATE {name.quoted} SET label = 7" for name in names))
    with closing(reader(database, start, tmp_path / "spool")) as log:
        changes = brief(log.read_transactions(start.lsn))
    found = {table: (row["label"], row["big"]) for table, operation, row in changes if operation == "UPDATE"}
    assert {str(name): (7, "x" * 9000) for name in names} == found
    with Session(Connection(name="test", uri=database)) as session:
        for name, table in read_tables(session, [*names]).items():
            assert not isinstance(table, SourceError)
            ((present, absent),) = query(
                database,
                f"SELECT format('%s', k), format('%s', {names[name].value}) FROM {name.quoted}, (VALUES (3)) AS g(i)",
            )
            asked = [[present], [absent], [present]]
            assert (name, [1] if present != absent else []) == (name, missing_keys(session, table, ["k"], asked))


COPIED = (
    "bigint", "numeric", "numeric(20,5)", "double precision", "char(8)", "timestamptz", "boolean", "bytea", "integer[]",
    "app.inner", "app.feeling",
)  # fmt: skip
"""Types that are one of Spark's, and some of those that are texts."""


def test_a_copy_by_keys_of_many_types_follows_its_source(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """Each column of its key decides: snapshots of several chunks, new keys, keys that change, and rows that go.

    Infinite dates are keys, too, of a copy that has them as texts.
    """
    for statement in SCHEMA:
        run(statement)
    types = list(with_domains({name: KEY_TYPES[name] for name in COPIED}, run))[1::2]
    endless = [KeyType(kind, f"({value})::{kind}") for kind, value in ENDLESS.items()]
    texts = [f"k{number}" for number in range(len(types), len(types) + len(endless))]
    types += endless
    defined = ", ".join(f"k{n} {each.name}" for n, each in enumerate(types))
    keys = ", ".join(f"k{n}" for n in range(len(types)))
    run(f"CREATE TABLE keyed ({defined}, label INT, PRIMARY KEY ({keys}))")
    for place in range(len(types)):
        _insert(run, "keyed", types, place, ROWS - 1)
    run("ANALYZE")
    pipeline = pipeline_of(interpreting, folder, MODULE.replace("TEXTS", repr(texts)))
    assert failures(pipeline.run()) == {}
    assert _differences(run, pipeline, "keyed") == {}
    run("DELETE FROM keyed WHERE label % 5 = 0 OR label % 1000 = 2")
    for place, column in enumerate(types):
        value = f"(SELECT {column.value} FROM (VALUES ({ROWS})) AS given(i))"
        run(f"UPDATE keyed SET k{place} = {value} WHERE label = {place * 1000 + 3}")
    assert failures(pipeline.run()) == {}
    assert _differences(run, pipeline, "keyed") == {}


def _insert(run: Run, table: str, types: Sequence[KeyType], place: int, last: int) -> None:
    """Insert rows that differ from the first one in one column of the key."""
    given = ["n" if index == place else "1" for index in range(len(types))]
    values = ", ".join(
        f"(SELECT {each.value} FROM (VALUES ({i})) AS given(i))" for each, i in zip(types, given, strict=True)
    )
    series = f"generate_series(1, {last}) AS n ON CONFLICT DO NOTHING"
    run(f"INSERT INTO {table} SELECT {values}, {place * 1000} + n FROM {series}")


def _differences(run: Run, pipeline: Pipeline, *tables: str) -> dict[str, list[str]]:
    """Return the rows that a copy or its source alone has; values that the copy has as text are the source's text."""
    found = {}
    for name in tables:
        rows = copy_rows(pipeline, name)
        kinds = {field.name: field.dataType for field in pipeline.table(f"copies.{name}").schema.fields}
        columns = ", ".join(
            f"format('%s', {each})" if kinds[each] == StringType() else each for each in rows[0].asDict()
        )
        source = [repr(_plain(row)) for row in run(f"SELECT {columns} FROM {name}")]
        copied = [repr(_plain(row)) for row in rows]
        if sorted(copied) != sorted(source):
            found[name] = sorted({*copied} ^ {*source}) or ["rows twice"]
    return found


def _plain(row: Sequence[Any]) -> list[Any]:
    """Return the values of a row as Spark's rows have them."""
    return [
        value + 0.0 if isinstance(value, float)  # a key has no negative zero
        else bytes(value) if isinstance(value, memoryview | bytearray)
        else value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo
        else value
        for value in row
    ]  # fmt: skip
