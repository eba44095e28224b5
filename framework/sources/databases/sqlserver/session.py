"""Sessions at a SQL Server: the port that all modules of this folder use, and its implementation by mssql-python.

A session sends T-SQL with `?` for its arguments. The stand-in of the tests is another implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from framework.sources.databases.sqlserver.connecting import connection_text, login_seconds
from framework.sources.databases.sqlserver.driver import load_fault
from framework.sources.databases.sqlserver.faults import named_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from framework.sources.databases.connections import Connection
    from framework.sources.databases.tables import TableName

Arguments = Sequence[str | int | bytes]
_BATCH_ROWS = 8192
# What the text of values and the results of comparisons depend on; in a deadlock, the writers of the source win.
SETTINGS = ("SET NOCOUNT ON", "SET ANSI_NULLS ON", "SET QUOTED_IDENTIFIER ON", "SET DEADLOCK_PRIORITY LOW")


class Session(Protocol):
    """An open connection; each statement is a transaction of its own, except between `begin_snapshot` and `end`."""

    @property
    def connection(self) -> Connection:
        """The connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def execute(self, statement: str, arguments: Arguments = ()) -> None:
        """Run a statement without a result.

        Raises:
            SourceError: a condition of `faults.py`.
        """
        ...

    def rows(
        self, statement: str, arguments: Arguments = (), *, table: TableName | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query and return its rows.

        Args:
            statement: the query.
            arguments: the values of its `?`.
            table: the table that it reads, for messages.

        Raises:
            SourceError: a condition of `faults.py`.
        """
        ...

    def batches(
        self, statement: str, arguments: Arguments = (), *, table: TableName | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows as Arrow, with bounded memory; no other statement runs meanwhile.

        Raises:
            SourceError: a condition of `faults.py`.
        """
        ...

    def begin_snapshot(self) -> None:
        """Begin a transaction in which all statements see the same rows.

        Raises:
            SourceError: a condition of `faults.py`.
        """
        ...

    def end(self) -> None:
        """End the transaction of `begin_snapshot`; nothing was written in it."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Connect = Callable[["Connection"], Session]
"""Opens a session; the dialect has it, so that a stand-in can take its place."""


class DriverSession:
    """A session by mssql-python.

    Args:
        connection: the connection.

    Raises:
        UserError: SQLSERVER_PARAMETER_INVALID.
        SourceError: the server is unreachable or refuses the login.
    """

    def __init__(self, connection: Connection) -> None:
        try:
            from mssql_python import connect
        except ImportError as error:
            raise (load_fault(str(error)) or error) from None

        self._connection = connection
        text = connection_text(connection)
        with named_errors(connection, connecting=True):
            self._raw = connect(text, autocommit=True, timeout=login_seconds(connection))
            self._cursor = self._raw.cursor()
        for setting in SETTINGS:
            self.execute(setting)

    @property
    def connection(self) -> Connection:
        """The connection."""
        return self._connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def execute(self, statement: str, arguments: Arguments = ()) -> None:
        """Run a statement without a result."""
        with named_errors(self._connection):
            self._cursor.execute(statement, *arguments)

    def rows(
        self, statement: str, arguments: Arguments = (), *, table: TableName | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        with named_errors(self._connection, table=table):
            self._cursor.execute(statement, *arguments)
            return [tuple(row) for row in self._cursor.fetchall()]

    def batches(
        self, statement: str, arguments: Arguments = (), *, table: TableName | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows as Arrow."""
        with named_errors(self._connection, table=table):
            self._cursor.execute(statement, *arguments)
            with self._cursor.arrow_reader(_BATCH_ROWS) as reader:
                yield from reader

    def begin_snapshot(self) -> None:
        """Begin a transaction in which all statements see the same rows."""
        self.execute("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
        self.execute("BEGIN TRANSACTION")

    def end(self) -> None:
        """End the transaction."""
        self.execute("COMMIT")
        self.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def close(self) -> None:
        """Close the connection."""
        with named_errors(self._connection):
            self._raw.close()
