"""The catalog of a real server as values: tables, columns, keys and identity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import (
    UNKNOWN_SYSTEM,
    list_tables,
    read_identity,
    read_table,
    read_tables,
)
from framework.sources.databases.tables import KeyKind, SourceColumn, SourceTable, TableName


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    """A session that may write."""
    with Session(Connection(name="bank", uri=database), read_only=False) as opened:
        opened.execute("RESET search_path")
        yield opened


def read(session: Session, table: str = "t", schema: str = "public") -> SourceTable:
    """Read a table."""
    return read_table(session, TableName(schema=schema, table=table))


def test_a_table_has_its_columns_in_order(session: Session) -> None:
    """Types with modifiers, nullability, and values that the log may omit; dropped columns do not appear."""
    session.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, gone integer, n numeric(10,2), note text NOT NULL, at timestamp(3))"
    )
    session.execute("ALTER TABLE t DROP COLUMN gone")
    session.execute("ALTER TABLE t ALTER COLUMN note SET STORAGE plain, ADD COLUMN big bytea")
    assert read(session).columns == (
        SourceColumn(name="id", type_name="bigint", nullable=False),
        SourceColumn(name="n", type_name="numeric(10,2)", nullable=True, may_be_omitted=True),
        SourceColumn(name="note", type_name="text", nullable=False),
        SourceColumn(name="at", type_name="timestamp(3) without time zone", nullable=True),
        SourceColumn(name="big", type_name="bytea", nullable=True, may_be_omitted=True),
    )
    session.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    table = read(session)
    assert table.full_before_image
    assert not any(column.may_be_omitted for column in table.columns)


def test_many_tables_are_read_in_three_queries(session: Session, swap: pytest.MonkeyPatch) -> None:
    """Each table is as if it was read alone, with its own key; what is no table or missing is an error of its own."""
    session.execute("CREATE TABLE a (id int, b text, UNIQUE (b), c int GENERATED ALWAYS AS (id + 1) STORED)")
    session.execute("CREATE TABLE b (id int NOT NULL UNIQUE, n numeric(4,1)[] PRIMARY KEY)")
    session.execute("ALTER TABLE b REPLICA IDENTITY USING INDEX b_id_key")
    session.execute("CREATE TABLE c (k bigint); CREATE VIEW v AS SELECT 1")
    session.execute("CREATE TABLE p (k bigint PRIMARY KEY) PARTITION BY RANGE (k)")
    session.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9); INSERT INTO p VALUES (1), (2)")
    names = [TableName(schema="public", table=table) for table in ("p", "b", "gone", "a", "v", "c")]
    tables = [name for name in names if name.table in "abcp"]
    alone = {name: read_table(session, name) for name in tables}
    queries: list[object] = []
    rows = Session.rows

    def counted(self: Session, query: object, *arguments: object, **more: object) -> object:
        queries.append(query)
        return rows(self, query, *arguments, **more)  # type: ignore[arg-type]

    with swap.context() as counting:
        counting.setattr(Session, "rows", counted)
        assert read_tables(session, tables) == alone
    assert len(queries) == 3
    found = read_tables(session, names)
    assert list(found) == names
    assert {name.table: each.condition for name, each in found.items() if isinstance(each, SourceError)} == {
        "gone": "DATABASE_TABLE_MISSING",
        "v": "DATABASE_NOT_A_TABLE",
    }
    assert [alone[name].key for name in tables] == [("k",), ("id",), ("b",), ()]
    assert read_tables(session, []) == {}


def test_names_of_any_characters_are_found(session: Session) -> None:
    """Quotes, dots, spaces, percent signs, unicode and letter case are kept."""
    session.execute(
        'CREATE SCHEMA "S .""%s"; CREATE TABLE "S .""%s"."Tä\U0001f600.""b" ("K"" %%s" integer PRIMARY KEY)'
    )
    table = read(session, 'Tä\U0001f600."b', 'S ."%s')
    assert (table.key, table.columns[0].name) == (('K" %%s',), 'K" %%s')
    assert list_tables(session, ['S ."%s']) == (table.name,)
    assert session.rows(f"SELECT count(*) FROM {table.name.quoted}", table=table.name) == [(0,)]


def test_types_of_users_are_qualified_and_domains_are_resolved(session: Session) -> None:
    """A domain over a domain, an array of a domain, a domain over an array, and a type that is named as a known one."""
    session.execute(
        "CREATE DOMAIN d AS numeric(5,2); CREATE DOMAIN dd AS d NOT NULL; CREATE DOMAIN da AS integer[];"
        "CREATE TYPE date AS ENUM ('x'); CREATE TYPE \"I\" AS (a integer);"
        'CREATE TABLE t (a dd, b d[], c da, d da[], e public.date, f "I"[], g integer[][], h varchar(3)[],'
        " i pg_catalog.date)"
    )
    assert [column.type_name for column in read(session).columns] == [
        "numeric(5,2)", "numeric(5,2)[]", "integer[]", "integer[][]", "public.date", 'public."I"[]', "integer[]",
        "character varying(3)[]", "date",
    ]  # fmt: skip


KEYS = {
    "id integer PRIMARY KEY, u integer NOT NULL UNIQUE": ("id", "primary"),
    "a text NOT NULL, b integer NOT NULL, c integer NOT NULL, UNIQUE (a), UNIQUE (b), UNIQUE (b, c)": ("b", "unique"),
    "a text NOT NULL, b integer NOT NULL, c integer, UNIQUE (c), UNIQUE (b, a)": ("b,a", "unique"),
    "a integer, b integer NOT NULL, UNIQUE (b, a)": ("b,a", "nullable_unique"),
    "b integer NOT NULL, a integer NOT NULL, PRIMARY KEY (a, b)": ("a,b", "primary"),
    "a integer PRIMARY KEY DEFERRABLE": ("", "none"),
    "a integer NOT NULL, b integer GENERATED ALWAYS AS (a) STORED NOT NULL UNIQUE": ("", "none"),
    "a integer": ("", "none"),
}


@pytest.mark.parametrize("definition", KEYS)
def test_the_key_is_the_best_unique_index(definition: str, session: Session) -> None:
    """Primary key, else the narrowest one without NULL, else one with NULL; none that is deferrable or generated."""
    session.execute(f"CREATE TABLE t ({definition})")
    columns, kind = KEYS[definition]
    table = read(session)
    assert (",".join(table.key), table.key_kind) == (columns, KeyKind(kind))


def test_an_index_that_does_not_identify_every_row_is_no_key(session: Session) -> None:
    """Partial indexes, expressions and columns that are only included do not count."""
    session.execute(
        "CREATE TABLE t (a integer NOT NULL, b integer NOT NULL);"
        "CREATE UNIQUE INDEX ON t (a) WHERE b > 0; CREATE UNIQUE INDEX ON t ((a + 1))"
    )
    assert read(session).key_kind is KeyKind.NONE
    session.execute("CREATE UNIQUE INDEX ON t (b) INCLUDE (a)")
    assert read(session).key == ("b",)


def test_the_replica_identity_index_is_the_key_of_the_log(session: Session) -> None:
    """A DELETE in the log has its columns only, so it wins over the primary key; after FULL the primary key wins."""
    session.execute("CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL)")
    session.execute("CREATE UNIQUE INDEX by_ab ON t (b, a); ALTER TABLE t REPLICA IDENTITY USING INDEX by_ab")
    assert (read(session).key, read(session).key_kind) == (("b", "a"), KeyKind.UNIQUE)
    session.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    assert (read(session).key, read(session).key_kind) == (("id",), KeyKind.PRIMARY)


def test_generated_columns_are_left_out_and_named(session: Session) -> None:
    """The log does not have them."""
    session.execute("CREATE TABLE t (id integer PRIMARY KEY, twice integer GENERATED ALWAYS AS (id * 2) STORED)")
    table = read(session)
    assert ([column.name for column in table.columns], table.generated) == (["id"], ("twice",))


def test_estimates_and_storage_follow_the_table(session: Session) -> None:
    """Rows from the statistics, bytes with TOAST; the storage id changes with a rewrite and not with a write."""
    session.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
    empty = read(session)
    assert (empty.estimated_rows, empty.key_kind) == (0, KeyKind.PRIMARY)
    session.execute("INSERT INTO t SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 1000) AS i")
    session.execute("VACUUM ANALYZE t")
    filled = read(session)
    assert (filled.estimated_rows, filled.storage_id) == (1000, empty.storage_id)
    assert filled.estimated_bytes > empty.estimated_bytes + 100_000
    for statement in ("VACUUM FULL t", "TRUNCATE t", "ALTER TABLE t ALTER COLUMN id TYPE bigint"):
        before = read(session).storage_id
        session.execute(statement)
        assert read(session).storage_id != before


def test_a_partitioned_table_is_one_table(session: Session) -> None:
    """Its rows, bytes, storage and before image are those of its partitions, of all levels."""
    session.execute(
        "CREATE TABLE t (id integer, k integer, PRIMARY KEY (id, k)) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (500) PARTITION BY LIST (k);"
        "CREATE TABLE low_1 PARTITION OF low FOR VALUES IN (1);"
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (500) TO (1000);"
        "INSERT INTO t SELECT i, 1 FROM generate_series(0, 999) AS i"
    )
    session.execute("ANALYZE t")
    table = read(session)
    assert (table.is_partitioned, table.key, table.estimated_rows) == (True, ("id", "k"), 1000)
    assert table.estimated_bytes == read(session, "low_1").estimated_bytes + read(session, "high").estimated_bytes
    assert not table.full_before_image
    session.execute("ALTER TABLE low_1 REPLICA IDENTITY FULL; ALTER TABLE high REPLICA IDENTITY FULL")
    assert read(session).full_before_image
    session.execute("TRUNCATE high")
    assert read(session).storage_id != table.storage_id


def test_only_tables_are_listed(session: Session) -> None:
    """Partitioned tables once; no partitions, views, sequences, temporary or foreign tables."""
    session.execute(
        'CREATE SCHEMA b; CREATE TABLE b.z (a serial); CREATE TABLE "B" (); CREATE TABLE a ();'
        "CREATE VIEW v AS SELECT 1;"
        "CREATE MATERIALIZED VIEW m AS SELECT 1; CREATE TEMP TABLE x (); CREATE UNLOGGED TABLE u ();"
        "CREATE TABLE p (i integer) PARTITION BY RANGE (i); CREATE TABLE p1 PARTITION OF p DEFAULT;"
        "CREATE TYPE c AS (a integer)"
    )
    assert [str(name) for name in list_tables(session, ["public", "b"])] == [
        "b.z", "public.B", "public.a", "public.p", "public.u",
    ]  # fmt: skip
    with pytest.raises(SourceError, match="Did you mean `public`") as caught:
        list_tables(session, ["publik"])
    assert caught.value.condition == "DATABASE_SCHEMA_MISSING"


def test_a_missing_table_and_a_view_are_named(session: Session) -> None:
    """The letter case counts, the nearest name is a hint, and a view has no rows in the log."""
    session.execute("CREATE TABLE accounts (); CREATE VIEW v AS SELECT 1")
    with pytest.raises(SourceError, match="Did you mean `accounts`") as caught:
        read(session, "Accounts")
    assert caught.value.condition == "DATABASE_TABLE_MISSING"
    with pytest.raises(SourceError, match="a view") as caught:
        read(session, "v")
    assert caught.value.condition == "DATABASE_NOT_A_TABLE"


def test_the_identity_distinguishes_databases_and_needs_no_right(session: Session, server: PostgresServer) -> None:
    """A role without the functions has the identity from a replication connection; one without both has less of it."""
    identity = read_identity(session)
    assert (identity.timeline, identity.database) == (1, session.connection.address.rpartition("/")[2])
    with Session(Connection(name="other", uri=server.uri())) as other:
        elsewhere = read_identity(other)
    assert (elsewhere.system, str(elsewhere)) == (identity.system, f"{identity.system}/1/postgres")
    session.execute("DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN REPLICATION")
    session.execute("REVOKE EXECUTE ON FUNCTION pg_control_system, pg_control_checkpoint FROM public")
    uri = session.connection.uri.replace("postgres@", "poor@")
    with Session(Connection(name="bank", uri=uri)) as poor:
        assert read_identity(poor) == identity
        session.execute("ALTER ROLE poor NOREPLICATION")
        unknown = read_identity(poor)
    assert (unknown.system, unknown.timeline, unknown.database) == (UNKNOWN_SYSTEM, 0, identity.database)
