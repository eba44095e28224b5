"""Connections: where they are defined, what is shown of them, and the names of failures on a real server."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError, UserError
from framework.sources.databases.connections import Connection, find_connection, has_password
from framework.sources.databases.exposure import check_exposure
from framework.sources.databases.postgres.faults import is_transient, named_errors
from framework.sources.databases.postgres.session import (
    Session,
    arrow_connection,
    connection_parameters,
    connection_uri,
    open_replication,
)
from framework.sources.databases.tables import TableName

_URI = "postgresql://joe:hunter2@db.example.com:5433/bank"


def query_with_psycopg(connection: Connection, query: str) -> None:
    """Run a query on a session."""
    with Session(connection) as session:
        session.rows(query)


def query_with_adbc(connection: Connection, query: str) -> None:
    """Run a query for Arrow."""
    with arrow_connection(connection) as opened, opened.cursor() as cursor:
        cursor.execute(query)
        cursor.fetch_arrow_table()


def query_for_replication(connection: Connection, query: str) -> None:
    """Run a query on a replication connection."""
    opened = open_replication(connection)
    with named_errors(connection), opened.cursor() as cursor:
        cursor.execute(query)


def open_sockets() -> set[str]:
    """Return the sockets of this process."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the folder
            links.append(str(descriptor.readlink()))
    return {link for link in links if link.startswith("socket")}


DRIVERS = (query_with_psycopg, query_with_adbc)
Query = Callable[[Connection, str], None]


def test_the_environment_takes_precedence_over_the_file(tmp_path: Path) -> None:
    """A name with other characters is the variable with underscores; an empty variable is not set."""
    (tmp_path / "connections.yml").write_text(
        "bank-eu: postgresql://file/a\nother:\n  uri: postgres://file/b\n", "utf-8"
    )
    from_environment = find_connection("bank-eu", tmp_path, {"SLUICE_CONNECTION_BANK_EU": " postgresql://env/a "})
    assert from_environment == Connection(name="bank-eu", uri="postgresql://env/a")
    assert find_connection("bank-eu", tmp_path, {"SLUICE_CONNECTION_BANK_EU": ""}).uri == "postgresql://file/a"
    assert find_connection("other", tmp_path, {}).uri == "postgres://file/b"


def test_an_unknown_name_lists_the_known_ones_and_both_ways(tmp_path: Path) -> None:
    """The error has the nearest name, the variable and the file."""
    (tmp_path / "connections.yml").write_text("bank: postgresql://file/a\n", "utf-8")
    with pytest.raises(UserError) as caught:
        find_connection("bnk", tmp_path, {"SLUICE_CONNECTION_SHOP": _URI})
    text = caught.value.render()
    assert caught.value.condition == "DATABASE_CONNECTION_UNKNOWN"
    for expected in ("bank, shop", "Did you mean `bank`?", "SLUICE_CONNECTION_BNK", str(tmp_path / "connections.yml")):
        assert expected in text
    with pytest.raises(UserError, match="defined are: none"):
        find_connection("bank", tmp_path / "missing", {})


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("bank: [1]\n", "DATABASE_CONNECTION_INVALID"),
        ("bank: 5432\n", "DATABASE_CONNECTION_INVALID"),
        ("bank:\n", "DATABASE_CONNECTION_INVALID"),
        ("bank:\n  uri: postgresql://db/a\n  user: joe\n", "DATABASE_CONNECTION_INVALID"),
        ("bank: jdbc:postgresql://db/a\n", "DATABASE_CONNECTION_INVALID"),
        ("bank: postgresql://joe:100%sure@db/a\n", "DATABASE_CONNECTION_INVALID"),
        ("bank: oracle://db/a\n", "DATABASE_KIND_NOT_SUPPORTED"),
        ("bank: mongodb://db/a\n", "DATABASE_KIND_NOT_SUPPORTED"),
        ("bank: ftp://db/a\n", "DATABASE_KIND_NOT_SUPPORTED"),
        ("- bank\n", "DATABASE_CONNECTIONS_INVALID"),
        ("bank: a\nbank: b\n", "DATABASE_CONNECTIONS_INVALID"),
    ],
)
def test_an_invalid_definition_is_named(text: str, condition: str, tmp_path: Path) -> None:
    """The file, an entry or a kind of database is the user's error."""
    (tmp_path / "connections.yml").write_text(text, "utf-8")
    with pytest.raises(UserError) as caught:
        find_connection("bank", tmp_path, {})
    assert caught.value.condition == condition


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://joe:hunt/er2@db/bank",
        "postgresql://joe:hunt?er2@db/bank",
        "postgresql://joe:hunt#er2@db/bank",
        "postgresql://joe:hunt@er2@db/bank",
        "postgresql://joe:12?hunter2@db/bank",
        "postgresql://joe:hunt er2@db/bank",
        "postgresql://joe:hunter2@db:port/bank",
    ],
)
def test_a_password_that_is_not_encoded_is_an_error_without_it(uri: str) -> None:
    """The driver would take a part of the password for host or port, and print it."""
    with pytest.raises(UserError) as caught:
        Connection(name="bank", uri=uri)
    assert caught.value.condition == "DATABASE_CONNECTION_INVALID"
    assert "hunt" not in caught.value.render()
    assert "er2" not in caught.value.render().replace("percent", "")


def test_no_text_of_a_connection_has_user_or_password() -> None:
    """Texts have the address only; the value survives the way to a Spark worker."""
    connection = Connection(name="bank", uri=f"{_URI}?sslmode=require")
    for text in (repr(connection), str(connection), f"{connection}", repr([connection]), f"{connection!r}"):
        assert "joe" not in text
        assert "hunter2" not in text
        assert "db.example.com:5433/bank" in text
    assert pickle.loads(pickle.dumps(connection)) == connection  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("postgresql://joe:p@[2001:db8::1]:5433/bank", "postgresql://[2001:db8::1]:5433/bank"),
        ("postgresql://joe:p@a:1,[::1]:2,c/bank", "postgresql://a:1,[::1]:2,c/bank"),
        ("postgresql://joe:p@%2Fvar%2Frun%2Fpg:5433/bank", "postgresql:///var/run/pg:5433/bank"),
        ("postgresql:///bank?host=/var/run&user=joe&password=hunter2", "postgresql:///var/run/bank"),
        ("postgres://db", "postgres://db/"),
    ],
)
def test_addresses_of_all_kinds_are_shown(uri: str, address: str) -> None:
    """IPv6, several hosts, sockets and parameters are connection strings."""
    assert Connection(name="bank", uri=uri).address == address


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("postgresql://joe:a%40b%2Fc%27@db/bank", "password=a@b/c' a%40b%2Fc%27 'a@b/c\\''"),
        ("postgresql://db/bank?user=joe&password=s3%20cret", "s3 cret and s3%20cret"),
        ("postgresql://joe:abc@db/bank?sslpassword=keypass", "keypass (abc)"),
    ],
)
def test_passwords_are_hidden_in_any_text(uri: str, text: str) -> None:
    """As they are in the URI, decoded, and escaped as libpq writes them; a short one as a word."""
    hidden = Connection(name="bank", uri=uri).hide(f"{uri} {text} abcd")
    for secret in ("a@b", "a%40", "s3", "keypass", "abc ", "abc)"):
        assert secret not in hidden
    assert hidden.endswith("abcd")


def test_parameters_and_encodings_reach_the_server(server: PostgresServer) -> None:
    """A percent-encoded password, a socket and options of the URI are those of the session, for both drivers."""
    with Session(Connection(name="admin", uri=server.uri()), read_only=False) as admin:
        admin.execute('DROP ROLE IF EXISTS "jo@e"; CREATE ROLE "jo@e" LOGIN PASSWORD \'p@ss/w:rd %\'')
    password = quote("p@ss/w:rd %", safe="")
    folder = quote(str(server.folder), safe="")
    options = "options=-c%20work_mem%3D1MB%20-c%20DateStyle%3DSQL&application_name=mine&connect_timeout=3"
    for host in ("127.0.0.1", folder):
        connection = Connection(name="x", uri=f"postgresql://jo%40e:{password}@{host}:{server.port}/postgres?{options}")
        parameters = connection_parameters(connection)
        assert (parameters["password"], parameters["connect_timeout"]) == ("p@ss/w:rd %", "3")
        assert connection_parameters(Connection(name="y", uri=connection_uri(parameters)))["password"] == "p@ss/w:rd %"  # noqa: S105 - the test's own
        query = (
            "SELECT current_user::text, current_setting('work_mem'), current_setting('application_name'),"
            " split_part(current_setting('DateStyle'), ',', 1), current_setting('transaction_read_only')"
        )
        expected = ("jo@e", "1MB", "mine", "ISO", "on")
        with Session(connection) as session:
            assert session.rows(query) == [expected]
        with arrow_connection(connection) as opened, opened.cursor() as cursor:
            cursor.execute(query)
            assert cursor.fetchall() == [expected]


def test_a_session_is_read_only_unless_it_must_write(database: str) -> None:
    """A statement that writes fails on a session of the catalog, whatever is the default of the database."""
    connection = Connection(name="bank", uri=database)
    with Session(connection, read_only=False) as session:
        session.execute(f"ALTER DATABASE {database.rpartition('/')[2]} SET default_transaction_read_only = on")
    with Session(connection) as session, pytest.raises(SourceError, match="read-only transaction"):
        session.execute("CREATE TABLE public.t ()")
    with Session(connection, read_only=False) as session:
        session.execute("CREATE TABLE public.t ()")


@pytest.mark.parametrize("query", [*DRIVERS, query_for_replication])
def test_a_failed_login_is_named(query: Query, server: PostgresServer) -> None:
    """Unreachable is transient; a role, a database, TLS and a parameter are not."""
    here = f"127.0.0.1:{server.port}"
    expected = {
        "postgresql://joe:hunter2@127.0.0.1:1/bank": "DATABASE_UNREACHABLE",
        "postgresql://joe:hunter2@host.invalid/bank": "DATABASE_UNREACHABLE",
        f"postgresql://nobody:hunter2@{here}/postgres": "DATABASE_LOGIN_REFUSED",
        f"postgresql://postgres:hunter2@{here}/nothing": "DATABASE_NOT_FOUND",
        f"postgresql://postgres:hunter2@{here}/postgres?sslmode=require": "DATABASE_TLS_FAILED",
        f"postgresql://postgres:hunter2@{here}/postgres?sslmod=require": "DATABASE_PARAMETER_INVALID",
        f"postgresql://postgres:hunter2@{here}/postgres?sslmode=sure": "DATABASE_PARAMETER_INVALID",
    }
    found = {}
    for uri in expected:
        with pytest.raises(SourceError) as caught:
            query(Connection(name="bank", uri=uri), "SELECT 1")
        found[uri] = caught.value.condition
        assert is_transient(caught.value) == (caught.value.condition == "DATABASE_UNREACHABLE")
        assert "hunter2" not in caught.value.render()
        assert caught.value.__cause__ is None
    assert found == expected


@pytest.mark.parametrize("query", [*DRIVERS, query_for_replication])
def test_a_wrong_password_is_refused_and_hidden(query: Query, server: PostgresServer) -> None:
    """The server asks one role for a password; the right one is accepted, and a refused connection is closed."""
    rules = server.folder / "data" / "pg_hba.conf"
    if "guarded" not in rules.read_text("utf-8"):
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text('utf-8')}", "utf-8")
    with Session(Connection(name="admin", uri=server.uri()), read_only=False) as admin:
        admin.execute("DROP ROLE IF EXISTS guarded")
        admin.execute("CREATE ROLE guarded LOGIN REPLICATION PASSWORD 'right%one'; SELECT pg_reload_conf()")
    uri = f"postgresql://guarded{{}}@127.0.0.1:{server.port}/postgres"
    before = open_sockets()
    for password in (":wrong%25one", ""):
        with pytest.raises(SourceError) as caught:
            query(Connection(name="bank", uri=uri.format(password)), "SELECT 1")
        assert caught.value.condition == "DATABASE_LOGIN_REFUSED"
        assert "one" not in caught.value.render()
        assert open_sockets() == before
    query(Connection(name="bank", uri=uri.format(":right%25one")), "SELECT 1")


@pytest.mark.parametrize("query", DRIVERS)
def test_limits_and_rights_of_a_login_are_named(query: Query, server: PostgresServer) -> None:
    """Too many connections are transient; a missing right to connect has its statement."""
    with Session(Connection(name="admin", uri=server.uri()), read_only=False) as admin:
        admin.execute("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN CONNECTION LIMIT 0")
        admin.execute("DROP DATABASE IF EXISTS closed")
        admin.execute("CREATE DATABASE closed")
        admin.execute("REVOKE CONNECT ON DATABASE closed FROM public")
        admin.execute("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
    with pytest.raises(SourceError) as caught:
        query(Connection(name="bank", uri=server.uri(user="limited")), "SELECT 1")
    assert (caught.value.condition, is_transient(caught.value)) == ("DATABASE_BUSY", True)
    with pytest.raises(SourceError) as caught:
        query(Connection(name="bank", uri=server.uri("closed", user="stranger")), "SELECT 1")
    expected = ("DATABASE_PERMISSION", 'GRANT CONNECT ON DATABASE "closed" TO "stranger"')
    assert (caught.value.condition, caught.value.fields["statement"]) == expected


def test_a_role_without_replication_is_named(server: PostgresServer) -> None:
    """The statement is that which the administrator runs."""
    with Session(Connection(name="admin", uri=server.uri()), read_only=False) as admin:
        admin.execute("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN")
    with pytest.raises(SourceError) as caught:
        open_replication(Connection(name="bank", uri=server.uri(user="plain")))
    assert caught.value.condition == "DATABASE_REPLICATION_ROLE"
    assert '`ALTER ROLE "plain" REPLICATION`' in caught.value.render()


@pytest.mark.parametrize("query", DRIVERS)
def test_a_failed_query_is_named(query: Query, database: str) -> None:
    """Both drivers give the same condition, and the texts of ADBC do not repeat the query."""
    with Session(Connection(name="bank", uri=database), read_only=False) as session:
        session.execute(
            "RESET search_path; DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; CREATE TABLE t (a integer);"
            "CREATE TABLE hidden (a integer); GRANT SELECT ON hidden TO reader;"
            "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY"
        )
    connection = Connection(name="bank", uri=database.replace("postgres@", "reader@"))
    expected = {
        "SELECT a FROM public.t": "DATABASE_PERMISSION",
        "SELECT a FROM public.hidden": "DATABASE_ROWS_HIDDEN",
        "SELECT a FROM missing": "DATABASE_TABLE_MISSING",
        "SELECT b FROM public.hidden": "DATABASE_COLUMN_MISSING",
        "SELECT 1 / 0": "DATABASE_QUERY_FAILED",
        "SELECT pg_terminate_backend(pg_backend_pid())": "DATABASE_UNREACHABLE",
    }
    found = {}
    for text in expected:
        with pytest.raises(SourceError) as caught:
            query(connection, text)
        found[text] = caught.value.condition
        assert "COPY" not in caught.value.what.replace("could not begin COPY", "")
    assert found == expected


def test_a_missing_grant_has_its_statement(database: str) -> None:
    """The statement names schema, table and role, quoted."""
    with Session(Connection(name="bank", uri=database), read_only=False) as session:
        session.execute(
            'CREATE TABLE public."T t" (a integer); DROP ROLE IF EXISTS "re ader"; CREATE ROLE "re ader" LOGIN'
        )
    connection = Connection(name="bank", uri=database.replace("postgres@", "re%20ader@"))
    with Session(connection) as session, pytest.raises(SourceError) as caught:
        session.rows('SELECT * FROM public."T t"', table=TableName(schema="public", table="T t"))
    statement = 'GRANT USAGE ON SCHEMA "public" TO "re ader"; GRANT SELECT ON "public"."T t" TO "re ader"'
    assert (caught.value.condition, caught.value.fields["statement"]) == ("DATABASE_PERMISSION", statement)


def test_limits_of_a_role_do_not_end_our_sessions(database: str) -> None:
    """A role for people may have them; what the connection itself names is kept."""
    names = ("statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout")
    with Session(Connection(name="bank", uri=database), read_only=False) as session:
        session.execute("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN")
        for each in names:
            session.execute(f"ALTER ROLE limited SET {each} = 700")
    uri = database.replace("postgres@", "limited@")
    for given, expected in (("", ["0", "0", "0", "0"]), (f"?options=-c%20{names[1]}%3D900", ["0", "900ms", "0", "0"])):
        with Session(Connection(name="bank", uri=uri + given)) as session:
            assert [session.rows(f"SHOW {each}")[0][0] for each in names] == expected


def test_a_busy_server_is_transient(database: str) -> None:
    """A canceled statement and too many connections may succeed later."""
    connection = Connection(name="bank", uri=f"{database}?options=-c%20statement_timeout%3D50")
    with Session(connection) as session, pytest.raises(SourceError) as caught:
        session.rows("SELECT pg_sleep(5)")
    assert (caught.value.condition, is_transient(caught.value)) == ("DATABASE_BUSY", True)


def test_passwords_that_others_can_read_are_a_warning(tmp_path: Path) -> None:
    """The statement of each warning mends it; a file without passwords has none."""
    (tmp_path / ".git").mkdir()
    spec = tmp_path / "pipelines" / "bank"
    spec.mkdir(parents=True)
    path = spec / "connections.yml"
    path.write_text("bank: postgresql://joe@db/bank\n", "utf-8")
    path.chmod(0o644)
    assert check_exposure(spec) == ()
    path.write_text(f"bank:\n  uri: {_URI}\n", "utf-8")
    conditions = ["DATABASE_CONNECTIONS_READABLE", "DATABASE_CONNECTIONS_NOT_IGNORED"]
    findings = check_exposure(spec)
    assert [finding.condition for finding in findings] == conditions
    assert [finding.statement for finding in findings] == [
        f"chmod 600 '{path}'",
        f"echo connections.yml >> '{spec / '.gitignore'}'",
    ]
    path.chmod(0o600)
    (tmp_path / ".gitignore").write_text("connections.yml\n", "utf-8")
    assert check_exposure(spec) == ()
    (spec / ".gitignore").write_text("!connections.yml\n", "utf-8")
    assert [finding.condition for finding in check_exposure(spec)] == conditions[1:]
    (tmp_path / ".git").rmdir()
    assert check_exposure(spec) == ()


def test_a_password_may_be_a_parameter() -> None:
    """User info and query are searched."""
    assert has_password(_URI)
    assert has_password("postgresql://db/a?password=x")
    assert not has_password("postgresql://joe@db/a?sslmode=require")
