"""Connections to a MySQL or MariaDB server: for the catalog and for the log, with the settings that fix texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pymysql

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.connecting import Login
from framework.sources.databases.mysql.faults import account_sql, named_errors
from framework.sources.databases.mysql.servers import Server
from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from pymysql.connections import Connection as Opened

# Values that depend on these would differ between a chunk and the log. A neutral `sql_mode` has no zero dates refused,
# no padding and no other meaning of quotes.
SESSION_SETTINGS = (
    "time_zone = '+00:00', sql_mode = '', sql_select_limit = DEFAULT, autocommit = 1, wait_timeout = 28800, "
    "net_write_timeout = 3600, net_read_timeout = 3600"
)
_CHARSET = "utf8mb4"
Arguments = Sequence[object] | Mapping[str, object]


class OpenConnections:
    """The connections that threads open inside `entered`, so that another thread can end all of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: list[Opened] = []
        self._has_ended = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Add the connections that this thread opens in the block."""
        token = _OPENED.set(self)
        try:
            yield
        finally:
            _OPENED.reset(token)

    def add(self, opened: Opened) -> None:
        """Add a connection; close it at once if `end` was called before."""
        with self._lock:
            self._open = [each for each in self._open if each.open]
            self._open.append(opened)
            has_ended = self._has_ended
        if has_ended:
            abort(opened)

    def end(self) -> None:
        """Close all connections, present and future, even with running statements."""
        with self._lock:
            self._has_ended = True
            ended, self._open = self._open, []
        for each in ended:
            abort(each)


_OPENED: ContextVar[OpenConnections | None] = ContextVar("connections of MySQL", default=None)


def connect(connection: Connection) -> Opened:
    """Open a connection with the settings that fix texts.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """
    login = Login.of(connection)
    with named_errors(connection):
        opened = pymysql.connect(
            **login.arguments,
            database=login.database or None,
            charset=_CHARSET,
            init_command=f"SET {SESSION_SETTINGS}",
            autocommit=True,
            # The limit of a start counts for its answers, too: a balancer may accept for a server that does not answer.
            read_timeout=login.arguments["connect_timeout"],
        )
        opened._read_timeout = None  # type: ignore[attr-defined]  # noqa: SLF001 - a query takes as long as it takes
    known = _OPENED.get()
    if known is not None:
        known.add(opened)
    return opened


def abort(opened: Opened) -> None:
    """Close a connection at once, even if another thread waits for its answer."""
    with suppress(Exception):
        opened._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - `close` would wait for the other thread


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
        self.raw = connect(connection)
        if read_only:
            self.execute("SET SESSION TRANSACTION READ ONLY")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self.raw.open:
            with suppress(pymysql.Error, OSError):
                self.raw.close()

    @cached_property
    def server(self) -> Server:
        """The server."""
        return Server.of(str(self.rows("SELECT VERSION()")[0][0]))

    def rows(self, query: str, arguments: Arguments = (), *, table: TableName | None = None) -> list[tuple[Any, ...]]:
        """Run a query and return its rows.

        Args:
            query: the query, with `%s` or `%(name)s` for each argument; if there are arguments, a literal `%` is `%%`.
            arguments: the arguments, by position or by name.
            table: the table that the query reads, for error texts.

        Raises:
            SourceError: the query fails.
        """
        with named_errors(self.connection, table=table, account=self.account), self.raw.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return list(cursor.fetchall())

    def account(self) -> str | None:
        """Return the account of the session as SQL; None if the server gives no answer."""
        with suppress(pymysql.Error, OSError), self.raw.cursor() as cursor:
            cursor.execute("SELECT CURRENT_USER()")
            return account_sql(str((cursor.fetchone() or ("",))[0]))
        return None

    def execute(self, statement: str, arguments: Arguments = ()) -> None:
        """Run a statement that has no result.

        Raises:
            SourceError: the statement fails.
        """
        self.rows(statement, arguments)

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """Return global variables by name, as text; those that the server does not know are left out.

        Raises:
            SourceError: the server gives no answer.
        """
        places = ", ".join(["%s"] * len(names))
        found = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", list(names))
        return {str(name).lower(): str(value) for name, value in found}
