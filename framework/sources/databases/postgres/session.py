"""Connections to a PostgreSQL server: for the catalog, for the log and for Arrow, with one group of settings.

The settings make the text of every value the same in a query and in the log. All errors of the drivers become named
errors without the password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from threading import Event, Lock, Thread, get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import psycopg2
from adbc_driver_manager import Error as ArrowError
from psycopg2.extensions import parse_dsn
from psycopg2.extras import LogicalReplicationConnection

from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.libpq import Cancellation
from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcDatabase
    from adbc_driver_manager.dbapi import Connection as ArrowConnection
    from psycopg2.sql import Composable

# Settings that decide the text of values. With `row_security` off, a query that a policy would filter fails.
EXACT_SETTINGS: Mapping[str, str] = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",  # ADBC knows types by the names of their functions
    "row_security": "off",
}
FLUSH_LOG = """
SELECT pg_logical_emit_message(true, 'sluice', '')::text
WHERE pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
"""
"""Makes all data durable that earlier transactions have read; the transaction must be committed.

With `synchronous_commit = off`, a commit may be visible to others, then be lost in a crash and never reach the log.
"""
USER_PATH = "sluice.search_path"
"""The setting of a connection that has the `search_path` of its role."""
# A schema in the path of a role may have functions, operators and tables under the names of pg_catalog, and a function
# of any schema in it is preferred if its parameters fit better. So only pg_catalog is in the path of our queries.
_HIDE_PATH = (
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog', false) FROM "
    f"pg_catalog.set_config('{USER_PATH}', pg_catalog.current_setting('search_path'), false)"
)
# The log and the chunks have the same text of a value; names of tables in it depend on the path (`search_path_sql`).
_CATALOG_FIRST = (
    "SELECT pg_catalog.set_config('search_path', "
    "pg_catalog.rtrim(pg_catalog.concat('pg_catalog, ', pg_catalog.current_setting('search_path')), ', '), false)"
)
# A role may have limits meant for interactive use, which would end our session during a snapshot or between batches.
_DEFAULT_SETTINGS = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
# A server below 17 would refuse a connection with this setting, and its version is unknown before connecting.
_TRANSACTION_TIMEOUT = "transaction_timeout"
_WITH_TRANSACTION_TIMEOUT = 170_000
_UNCHECKED = "SQL_ASCII"
_CANCEL_SECONDS = 0.1
_DEFAULT_PARAMETERS = {
    "application_name": "sluice",
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


def connection_parameters(connection: Connection, *, read_only: bool = True) -> dict[str, str]:
    """Return libpq's parameters: the parameters of the URI, and the settings of a session.

    The URI takes precedence over the defaults (application name, timeouts, keepalives), not over the settings that
    decide the text of values.

    Args:
        connection: the connection.
        read_only: whether transactions are read-only by default.
    """
    with named_errors(connection, connecting=True):
        given = {name: str(value) for name, value in parse_dsn(connection.uri).items()}
    access = {"default_transaction_read_only": "on" if read_only else "off", "synchronous_commit": "local"}
    exact = {**EXACT_SETTINGS, **access}
    options = [_options(_DEFAULT_SETTINGS), given.get("options", ""), _options(exact)]
    return {
        **_DEFAULT_PARAMETERS,
        **given,
        "client_encoding": "UTF8",
        "options": " ".join(filter(None, options)),
    }


def connection_uri(parameters: Mapping[str, str]) -> str:
    """Return parameters of libpq as a URI; it contains the password."""
    return "postgresql:///?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())


class OpenConnections:
    """The connections that threads open inside `entered`, so that another thread can end all of them.

    A connection that runs a statement can only be cancelled; psycopg2 closes it when the statement has ended. An ADBC
    connection is closed by the thread that opened it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: list[tuple[psycopg2.extensions.connection, Cancellation]] = []
        self._reading: set[_ArrowReading] = set()
        self._has_ended = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Add the connections that this thread opens in the block."""
        token = _OPENED.set(self)
        try:
            yield
        finally:
            _OPENED.reset(token)

    def add(self, opened: psycopg2.extensions.connection) -> None:
        """Add a connection; close it at once if `end` was called before."""
        with self._lock:
            self._open = [each for each in self._open if not each[0].closed]
            self._open.append((opened, Cancellation(opened)))
        if self._has_ended:
            opened.close()

    @contextmanager
    def reading(self, opened: ArrowConnection) -> Iterator[None]:
        """Add an ADBC connection for the duration of the block, then close it; after `end` its statements fail."""
        reading = _ArrowReading(opened)
        with self._lock:
            self._reading.add(reading)
        if self._has_ended:
            reading.close()
        try:
            yield
        finally:
            with self._lock:
                self._reading.remove(reading)
            reading.close()

    def end(self) -> None:
        """Cancel running statements and close all connections, present and future; return at once."""
        self._has_ended = True
        with self._lock:
            ended = [each for each in self._open if not each[0].closed]
            reading = list(self._reading)
        # A cancel opens a connection of its own, which hangs like any other if the server is down.
        for each in ended:
            Thread(target=_end, args=each, name="end of a connection", daemon=True).start()
        for one in reading:
            Thread(target=one.end, name="end of a connection", daemon=True).start()


_OPENED: ContextVar[OpenConnections | None] = ContextVar("connections", default=None)


def _end(opened: psycopg2.extensions.connection, cancellation: Cancellation) -> None:
    closing = Thread(target=opened.close, name="end of a connection", daemon=True)
    closing.start()
    while closing.is_alive():
        # A statement may begin between two of them.
        cancellation.send()
        closing.join(_CANCEL_SECONDS)


class _ArrowReading:
    """An ADBC connection that one thread uses and another thread may end."""

    def __init__(self, opened: ArrowConnection) -> None:
        self._opened = opened
        self._lock = Lock()
        self._closed = Event()

    def end(self) -> None:
        """Cancel each statement until the connection is closed: a statement may begin between two cancels."""
        while not self._closed.is_set():
            with self._lock:
                if not self._closed.is_set():
                    with suppress(ArrowError):  # a server that is down, which also ends the statement
                        self._opened.adbc_cancel()
            self._closed.wait(_CANCEL_SECONDS)

    def close(self) -> None:
        """Close the connection once no cancel uses it."""
        with self._lock:
            self._closed.set()
            self._opened.close()


def _opened(connection: psycopg2.extensions.connection) -> None:
    """Add a new connection to the open connections of the thread."""
    known = _OPENED.get()
    if known is not None:
        known.add(connection)


Arguments = Sequence[object] | Mapping[str, object]


class Session:
    """An open connection for queries on the catalog; each statement is a transaction of its own.

    Args:
        connection: the connection.
        read_only: whether transactions are read-only.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """

    def __init__(self, connection: Connection, *, read_only: bool = True) -> None:
        self.connection = connection
        parameters = connection_parameters(connection, read_only=read_only)
        with named_errors(connection, connecting=True):
            self.raw = psycopg2.connect(**parameters)  # type: ignore[call-overload]
            _opened(self.raw)
            self.raw.autocommit = True
            with self.raw.cursor() as cursor:
                cursor.execute(_HIDE_PATH)
            _lift_transaction_timeout(self.raw)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.raw.close()

    def rows(
        self, query: str | Composable, arguments: Arguments = (), *, table: TableName | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query and return its rows.

        Args:
            query: the query, with `%s` or `%(name)s` for each argument; if there are arguments, a literal `%` is `%%`.
            arguments: the arguments, by position or by name.
            table: the table that the query reads, for error texts.

        Raises:
            SourceError: the query fails.
        """
        with named_errors(self.connection, table=table), self.raw.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return list(cursor.fetchall())

    def execute(self, statement: str | Composable, arguments: Arguments = ()) -> None:
        """Run a statement that has no result.

        Raises:
            SourceError: the statement fails.
        """
        with named_errors(self.connection), self.raw.cursor() as cursor:
            cursor.execute(statement, arguments or None)


def open_replication(connection: Connection) -> LogicalReplicationConnection:
    """Open a connection for logical replication, with the settings of a session.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """
    parameters = connection_parameters(connection, read_only=False)
    with named_errors(connection, connecting=True):
        opened: LogicalReplicationConnection = psycopg2.connect(  # type: ignore[call-overload]
            **parameters, connection_factory=LogicalReplicationConnection
        )
        _opened(opened)
        _lift_transaction_timeout(opened)
        with opened.cursor() as cursor:
            cursor.execute(_CATALOG_FIRST)
            if opened.info.parameter_status("server_encoding") == _UNCHECKED:
                # The server would end the stream at a text that is not UTF-8; such a text should fail its row only.
                cursor.execute(f"SET client_encoding TO '{_UNCHECKED}'")
        return opened


@contextmanager
def arrow_connection(connection: Connection) -> Iterator[ArrowConnection]:
    """Open an ADBC connection for reading, with the settings of a session, and close it at the end of the block.

    Errors of the driver inside the block are raised as named errors; `named_errors` adds the table.

    Raises:
        SourceError: the server is unreachable, refuses the login, or a query in the block fails.
    """
    from adbc_driver_manager import AdbcConnection
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

    with named_errors(connection, connecting=True):
        raw = AdbcConnection(_arrow_database(connection, get_ident()))
        opened = ArrowConnection(_KeptDatabase(), raw, autocommit=True)  # type: ignore[arg-type]  # needs `close` only
    known = _OPENED.get()
    with closing(opened) if known is None else known.reading(opened), named_errors(connection):
        yield opened


class _KeptDatabase:
    """A stand-in for the driver's database, so that a closing connection does not close the real one."""

    def close(self) -> None:
        """Do nothing: the database is kept for the next connection."""


@lru_cache(maxsize=32)
def _arrow_database(connection: Connection, thread: int) -> AdbcDatabase:
    """Return the driver's database, which holds the types of the server; the driver reads them over its own connection.

    Reading them takes as long as a tenth of a chunk. User-defined types are read as texts, so new types don't matter.
    Each thread has its own database, because ADBC does not promise thread safety. The driver's own query needs the
    search path of a session, so its connections start with that path.
    """
    del thread
    import adbc_driver_postgresql

    with closing(Session(connection)) as session:
        ((path, limit),) = session.rows(
            f"SELECT current_setting('{USER_PATH}'), current_setting('{_TRANSACTION_TIMEOUT}', true)"
        )
    parameters = connection_parameters(connection)
    paths = _options({"search_path": "pg_catalog", USER_PATH: path.replace("\\", r"\\")})
    # As in the session, a limit of the connection itself is kept.
    limits = {} if limit is None else {_TRANSACTION_TIMEOUT: limit}
    parameters["options"] += f" {paths} {_options(limits)}"
    database: AdbcDatabase = adbc_driver_postgresql.connect(connection_uri(parameters))
    return database


def _lift_transaction_timeout(opened: psycopg2.extensions.connection) -> None:
    """Remove the transaction limit of a role or its database; keep the limit of the connection itself."""
    if opened.server_version < _WITH_TRANSACTION_TIMEOUT:
        return
    with opened.cursor() as cursor:
        cursor.execute(
            f"SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
            f"WHERE name = '{_TRANSACTION_TIMEOUT}' AND setting <> '0' AND source <> 'client'"
        )


def _options(settings: Mapping[str, str]) -> str:
    """Return settings as command-line options of the server, in which a space needs a backslash."""
    return " ".join(
        f"-c {name}={value}".replace(" ", "\\ ").replace("-c\\ ", "-c ") for name, value in settings.items()
    )
