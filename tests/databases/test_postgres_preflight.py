"""Preflight on a real server: each finding's statement mends it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.findings import PreflightFinding, Severity
from framework.sources.databases.postgres.log.position import ensure_position, mark_sql, settled_position
from framework.sources.databases.postgres.log.position_check import StoredPosition, check_position
from framework.sources.databases.postgres.preflight import check
from framework.sources.databases.postgres.session import Session, arrow_connection
from framework.sources.databases.postgres.tables.catalog import read_identity
from framework.sources.databases.tables import TableName

T = TableName(schema="public", table="t")


@pytest.fixture
def admin(database: str) -> Iterator[Session]:
    """A session of the superuser, in a database with a table that needs nothing."""
    with Session(Connection(name="bank", uri=database), read_only=False) as session:
        session.execute("RESET search_path; CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        yield session


@pytest.fixture
def reader(admin: Session) -> Iterator[Session]:
    """A session of a role that has every right but ownership."""
    role = f"reader_{admin.connection.uri.rpartition('_')[2]}"
    admin.execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t TO {role};CREATE PUBLICATION p FOR TABLE t")
    admin.execute(mark_sql("s_preflight", "p"))
    with Session(Connection(name="bank", uri=admin.connection.uri.replace("postgres@", f"{role}@"))) as session:
        yield session
    admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def run(session: Session, *tables: TableName) -> tuple[PreflightFinding, ...]:
    """Check tables; `t` if there are no others."""
    return check(session, tables or (T,), slot="s_preflight", publication="p")


def conditions(findings: tuple[PreflightFinding, ...]) -> dict[str, Severity]:
    """The conditions with their severities."""
    return {finding.condition: finding.severity for finding in findings}


def mend(admin: Session, session: Session, condition: str, severity: Severity, *tables: TableName) -> None:
    """Assert that a check finds only this condition, and that its statement mends it."""
    found = run(session, *tables)
    assert conditions(found) == {condition: severity}
    assert found[0].statement
    assert found[0].statement in found[0].remedy
    admin.execute(found[0].statement)
    assert run(session, *tables) == ()


def test_a_complete_source_has_no_findings(admin: Session, reader: Session) -> None:
    """Neither for the owner without a publication, nor for a role with its rights."""
    assert run(reader) == ()
    admin.execute("DROP PUBLICATION p")
    assert run(admin) == ()


MENDABLE = {
    "REVOKE SELECT ON t FROM {role}": ("DATABASE_SELECT_MISSING", Severity.ERROR),
    "REVOKE SELECT ON t FROM {role}; GRANT SELECT (id) ON t TO {role}": ("DATABASE_SELECT_MISSING", Severity.ERROR),
    "REVOKE USAGE ON SCHEMA public FROM public": ("DATABASE_SCHEMA_USAGE", Severity.ERROR),
    "ALTER ROLE {role} NOREPLICATION": ("DATABASE_REPLICATION_ROLE", Severity.ERROR),
    "ALTER TABLE t ENABLE ROW LEVEL SECURITY": ("DATABASE_ROWS_HIDDEN", Severity.ERROR),
    "ALTER TABLE t REPLICA IDENTITY NOTHING": ("DATABASE_REPLICA_IDENTITY", Severity.ERROR),
    "DROP PUBLICATION p": ("DATABASE_PUBLICATION_MISSING", Severity.ERROR),
    "COMMENT ON PUBLICATION p IS 'of another tool'": ("DATABASE_PUBLICATION_NOT_OURS", Severity.ERROR),
    "ALTER PUBLICATION p DROP TABLE t": ("DATABASE_PUBLICATION_WITHOUT_TABLE", Severity.ERROR),
    "ALTER PUBLICATION p SET (publish = 'insert')": ("DATABASE_PUBLICATION_INCOMPLETE", Severity.ERROR),
    "ALTER PUBLICATION p SET TABLE t WHERE (id > 0)": ("DATABASE_PUBLICATION_FILTERED", Severity.ERROR),
    "ALTER PUBLICATION p SET TABLE t (id)": ("DATABASE_PUBLICATION_FILTERED", Severity.ERROR),
    "ALTER TABLE t ADD COLUMN note text": ("DATABASE_TOAST_READ_AGAIN", Severity.INFORMATION),
    "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD UNIQUE (v), REPLICA IDENTITY FULL": (
        "DATABASE_KEY_NULLABLE",
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize("damage", MENDABLE)
def test_the_statement_mends_what_is_missing(damage: str, admin: Session, reader: Session) -> None:
    """After the statement the finding is gone, and nothing else was found."""
    role = reader.rows("SELECT current_user::text")[0][0]
    admin.execute(damage.format(role=role))
    mend(admin, reader, *MENDABLE[damage])


def test_what_the_role_may_do_itself_is_no_finding(admin: Session) -> None:
    """The owner of tables and publication adds a table to it, or makes it."""
    admin.execute("CREATE PUBLICATION p; " + mark_sql("s_preflight", "p"))
    assert run(admin) == ()


def test_the_replica_identity_is_the_best_that_there_is(admin: Session, reader: Session) -> None:
    """A unique index without NULL is used, the primary key is the default, and FULL is the last resort."""
    admin.execute('ALTER TABLE t DROP CONSTRAINT t_pkey; CREATE UNIQUE INDEX "By Id" ON t (id)')
    statements = [each.statement for each in run(reader) if each.condition == "DATABASE_REPLICA_IDENTITY"]
    assert statements == ['ALTER TABLE public.t REPLICA IDENTITY USING INDEX "By Id"']
    mend(admin, reader, "DATABASE_REPLICA_IDENTITY", Severity.ERROR)
    admin.execute('DROP INDEX "By Id"')
    found = run(reader)
    assert [finding.statement for finding in found] == ["ALTER TABLE public.t REPLICA IDENTITY FULL", ""]
    admin.execute(found[0].statement)
    assert conditions(run(reader)) == {"DATABASE_TABLE_WITHOUT_KEY": Severity.WARNING}


def test_rows_and_columns_that_the_log_lacks_are_found(admin: Session) -> None:
    """Generated columns, tables that inherit, and unlogged tables."""
    admin.execute(
        "ALTER TABLE t ADD COLUMN twice integer GENERATED ALWAYS AS (id * 2) STORED;"
        "CREATE TABLE child () INHERITS (t);"
        "CREATE UNLOGGED TABLE u (id integer PRIMARY KEY)"
    )
    unlogged = TableName(schema="public", table="u")
    assert conditions(run(admin, T, unlogged)) == {
        "DATABASE_GENERATED_COLUMNS": Severity.WARNING,
        "DATABASE_CHILD_TABLES": Severity.WARNING,
        "DATABASE_TABLE_UNLOGGED": Severity.ERROR,
    }
    mend(admin, admin, "DATABASE_TABLE_UNLOGGED", Severity.ERROR, unlogged)


def test_partitions_are_checked_and_published_under_one_name(admin: Session, reader: Session) -> None:
    """Each partition has a replica identity of its own; the publication must name the partitioned table."""
    role = reader.rows("SELECT current_user::text")[0][0]
    admin.execute(
        "CREATE TABLE r (id integer PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE r1 PARTITION OF r DEFAULT;"
        f"ALTER PUBLICATION p ADD TABLE r; GRANT SELECT ON r TO {role}"
    )
    root = TableName(schema="public", table="r")
    mend(admin, reader, "DATABASE_PARTITION_ROOT", Severity.ERROR, root)
    admin.execute("ALTER TABLE r1 REPLICA IDENTITY NOTHING")
    mend(admin, reader, "DATABASE_REPLICA_IDENTITY", Severity.ERROR, root)
    admin.execute(
        "ALTER TABLE r ADD COLUMN o integer NOT NULL; CREATE UNIQUE INDEX r1_o ON r1 (o);"
        "ALTER TABLE r1 REPLICA IDENTITY USING INDEX r1_o"
    )
    mend(admin, reader, "DATABASE_KEY_NOT_LOGGED", Severity.ERROR, root)


def test_a_foreign_partition_is_an_error(admin: Session) -> None:
    """A snapshot has its rows, the log has not; detaching it mends."""
    admin.execute(
        "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER f FOREIGN DATA WRAPPER w;"
        "CREATE TABLE r (id integer, v integer) PARTITION BY RANGE (id);"
        "CREATE FOREIGN TABLE r1 PARTITION OF r DEFAULT SERVER f"
    )
    root = TableName(schema="public", table="r")
    assert conditions(run(admin, root)) == {
        "DATABASE_FOREIGN_PARTITION": Severity.ERROR,
        "DATABASE_TABLE_WITHOUT_KEY": Severity.WARNING,
    }


def test_a_missing_table_is_a_finding_and_the_others_are_checked(admin: Session) -> None:
    """One finding for each, with the text of the error."""
    admin.execute("CREATE VIEW v AS SELECT 1; ALTER TABLE t REPLICA IDENTITY NOTHING")
    names = [TableName(schema="public", table=name) for name in ("gone", "v", "t")]
    found = run(admin, *names)
    assert [(str(finding.table), finding.condition) for finding in found] == [
        ("public.gone", "DATABASE_TABLE_MISSING"),
        ("public.v", "DATABASE_NOT_A_TABLE"),
        ("public.t", "DATABASE_REPLICA_IDENTITY"),
    ]


def test_the_statement_of_a_publication_has_the_tables_that_exist(admin: Session, reader: Session) -> None:
    """A missing table does not make it fail, and the role, which does not own the publication, can use it."""
    admin.execute("DROP PUBLICATION p")
    found = run(reader, TableName(schema="public", table="gone"), T)
    assert [finding.condition for finding in found] == ["DATABASE_PUBLICATION_MISSING", "DATABASE_TABLE_MISSING"]
    admin.execute(found[0].statement)
    assert run(reader) == ()
    with Session(reader.connection, read_only=False) as session:
        made = ensure_position(session, "s_preflight", "p", [T])
    admin.rows("SELECT pg_drop_replication_slot('s_preflight')")
    assert (made.created, made.added) == (True, ())


def test_a_slot_of_another_use_is_an_error(admin: Session, server: PostgresServer) -> None:
    """A slot of another database, which may be that of its copy: no statement that drops it is given as the way out."""
    with Session(Connection(name="other", uri=server.uri()), read_only=False) as other:
        other.rows("SELECT pg_create_logical_replication_slot('s_preflight', 'pgoutput')")
        found = run(admin)
        assert conditions(found) == {"DATABASE_SLOT_FOREIGN": Severity.ERROR}
        assert (found[0].statement, "another `name`" in found[0].remedy) == ("", True)
        other.rows("SELECT pg_drop_replication_slot('s_preflight')")
    admin.rows("SELECT pg_create_logical_replication_slot('s_preflight', 'pgoutput')")
    assert run(admin) == ()
    admin.rows("SELECT pg_drop_replication_slot('s_preflight')")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_texts_of_another_encoding_are_read_as_utf8(encoding: str, admin: Session) -> None:
    """The server converts LATIN1; SQL_ASCII has no encoding to convert from, which is a warning."""
    name = f"{admin.connection.uri.rpartition('/')[2]}_{encoding.lower()}"
    admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'")
    connection = Connection(name="bank", uri=f"{admin.connection.uri.rpartition('/')[0]}/{name}")
    with Session(connection, read_only=False) as session:
        session.execute(
            "RESET search_path; CREATE TABLE t (id integer PRIMARY KEY, v char(8)); ALTER TABLE t REPLICA IDENTITY FULL"
        )
        session.execute("INSERT INTO t VALUES (1, 'äöü')")
        expected = {"SQL_ASCII": {"DATABASE_ENCODING_UNKNOWN": Severity.WARNING}, "LATIN1": {}}[encoding]
        assert conditions(run(session)) == expected
        assert session.rows("SELECT trim(v) FROM public.t") == [("äöü",)]
        with arrow_connection(connection) as opened, opened.cursor() as cursor:
            cursor.execute("SELECT trim(v)::text FROM public.t")
            assert cursor.fetchall() == [("äöü",)]
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_slots_in_use_are_counted(admin: Session) -> None:
    """All slots in use is an error, but not if ours is one of them; ours must not send prepared transactions."""
    (most,) = admin.rows("SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots")[0]
    names = ["s_preflight", *(f"s_{number}" for number in range(most - 1))]
    for name in names:
        admin.rows("SELECT pg_create_physical_replication_slot(%s)", [name])
    assert conditions(run(admin)) == {"DATABASE_SLOT_FOREIGN": Severity.ERROR}
    found = check(admin, [T], slot="another", publication="p")
    assert conditions(found) == {"DATABASE_SLOTS_EXHAUSTED": Severity.ERROR}
    for name in names:
        admin.rows("SELECT pg_drop_replication_slot(%s)", [name])
    admin.rows("SELECT pg_create_logical_replication_slot('s_preflight', 'pgoutput', false, true)")
    assert conditions(run(admin)) == {"DATABASE_POSITION_LOST.TWO_PHASE": Severity.ERROR}
    admin.rows("SELECT pg_drop_replication_slot('s_preflight')")


def test_a_limited_log_is_a_warning_and_a_lost_slot_an_error(admin: Session) -> None:
    """The server removes the log of a slot beyond the limit; the statements lift the limit and drop the slot."""
    admin.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    admin.execute("SELECT pg_reload_conf()")
    admin.rows("SELECT pg_create_logical_replication_slot('s_preflight', 'pgoutput')")
    for number in range(4):
        admin.execute(f"INSERT INTO t VALUES ({number}); SELECT pg_switch_wal()")
    admin.execute("CHECKPOINT")
    with Session(admin.connection) as later:
        found = run(later)
    assert conditions(found) == {
        "DATABASE_SLOT_LOG_LIMITED": Severity.WARNING,
        "DATABASE_SLOT_LOST": Severity.ERROR,
    }
    for finding in found:
        admin.execute(finding.statement)
    admin.execute("SELECT pg_reload_conf()")
    with Session(admin.connection) as later:
        assert run(later) == ()


@pytest.fixture
def paused(server: PostgresServer) -> Iterator[PostgresServer]:
    """The shared server, which is started again at the end; the test stops it to start another one."""
    yield server
    server.stop("fast")
    server.start()


def test_a_server_as_it_is_installed_has_no_log_of_rows(paused: PostgresServer) -> None:
    """wal_level and senders are errors, and the statements with a restart mend them."""
    paused.stop("fast")
    with PostgresServer({"wal_level": "replica", "max_wal_senders": "0", "max_replication_slots": "0"}) as plain:
        connection = Connection(name="bank", uri=plain.uri())
        with Session(connection, read_only=False) as session:
            session.execute("RESET search_path; CREATE TABLE t (id integer PRIMARY KEY, v integer)")
            found = run(session)
            assert [finding.condition for finding in found] == [
                "DATABASE_WAL_LEVEL", "DATABASE_SLOTS_EXHAUSTED", "DATABASE_SENDERS_EXHAUSTED",
            ]  # fmt: skip
            assert {finding.severity for finding in found} == {Severity.ERROR}
            with pytest.raises(SourceError) as caught:
                ensure_position(session, "s", "p", [TableName(schema="public", table="t")])
            assert (caught.value.condition, caught.value.fields["level"]) == ("DATABASE_WAL_LEVEL", "replica")
            for finding in found:
                session.execute(finding.statement)
            written = dict(session.rows("SELECT name, setting FROM pg_file_settings WHERE sourcefile ~ 'auto.conf'"))
    assert written == {"wal_level": "logical", "max_replication_slots": "5", "max_wal_senders": "5"}


def test_a_standby_is_an_error_and_its_promotion_another_identity(paused: PostgresServer) -> None:
    """A copy has the system identifier of its primary; a promotion begins another timeline."""
    with Session(Connection(name="bank", uri=paused.uri()), read_only=False) as session:
        session.execute("RESET search_path; DROP TABLE IF EXISTS t; CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        original = read_identity(session)
    folder = Path(tempfile.mkdtemp(prefix="sluice-standby-"))
    if os.getuid() == 0:  # the server runs as another user
        shutil.chown(folder, "nobody")
    paused.run(
        "pg_basebackup", "-D", str(folder / "data"), "-X", "stream", "-c", "fast", "-d", database="dbname=postgres"
    )
    (folder / "data" / "standby.signal").touch()
    paused.stop("fast")
    try:
        with PostgresServer(folder=folder) as standby, Session(Connection(name="bank", uri=standby.uri())) as session:
            assert conditions(run(session)) == {"DATABASE_STANDBY": Severity.ERROR}
            assert read_identity(session) == original
            stored = StoredPosition(slot="s", publication="p", lsn=1, identity=original)
            for step in (
                lambda: ensure_position(session, "s", "p", [TableName(schema="public", table="t")]),
                lambda: check_position(session, stored),
                lambda: settled_position(session, "s"),
                lambda: session.rows("SELECT pg_current_xact_id()"),
            ):
                with pytest.raises(SourceError) as caught:
                    step()
                assert caught.value.condition == "DATABASE_STANDBY"
            assert session.rows("SELECT pg_promote(true, 60)") == [(True,)]
            promoted = read_identity(session)
    finally:
        shutil.rmtree(folder)
    assert promoted == replace(original, timeline=original.timeline + 1)
