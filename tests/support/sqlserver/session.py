"""Sessions at the stand-in, for the dialect: each statement must be T-SQL, and runs on the model's files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.sqlserver.faults import named_error
from framework.sources.databases.sqlserver.session import SETTINGS
from framework.sources.databases.tables import TableName
from tests.support.sqlserver.database import Database, ServerError
from tests.support.sqlserver.translation import SNAPSHOT_STATEMENTS, parsed, to_sqlite

_ROWS_OF_BATCH = 7
_TEXTS = {"no such table": "Invalid object name", "no such column": "Invalid column name"}


class StandInSession:
    """A session at the files of a URL, `sqlserver-stand-in://local/<path>`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        folder = Path(unquote(urlsplit(connection.uri).path.removeprefix("/")))
        if not (folder / "sys.db").exists():
            raise SourceError(
                "DATABASE_UNREACHABLE", connection=connection, address=connection.address, cause="no file"
            )
        self.database = Database(folder)
        self._is_in_snapshot = False
        for setting in SETTINGS:
            self.execute(setting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> None:
        """Run a statement: a setting, a procedure, or the end of a transaction."""
        assert not arguments
        parsed(statement)
        if statement.startswith("EXEC"):
            with self._named(None):
                self.database.run(statement)

    def rows(
        self, statement: str, arguments: Sequence[Any] = (), *, table: TableName | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query."""
        with self._named(table):
            return self.database.raw.execute(to_sqlite(statement), list(arguments)).fetchall()

    def batches(
        self, statement: str, arguments: Sequence[Any] = (), *, table: TableName | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Run a query, and yield small batches."""
        with self._named(table):
            if "_CT]" in statement and self.database.get("cleans_while_reading"):
                self.database.put("cleans_while_reading", None)
                self.database.clean_up(self.database.captured)
            cursor = self.database.raw.execute(to_sqlite(statement), list(arguments))
            names = [each[0] for each in cursor.description]
            while rows := cursor.fetchmany(_ROWS_OF_BATCH):
                arrays = [pa.array([row[place] for row in rows]) for place in range(len(names))]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    def begin_snapshot(self) -> None:
        """Begin a transaction whose statements see the same rows."""
        assert "SET TRANSACTION ISOLATION LEVEL SNAPSHOT" in SNAPSHOT_STATEMENTS
        self.database.raw.execute("BEGIN")
        self._is_in_snapshot = True

    def end(self) -> None:
        """End the transaction."""
        self._is_in_snapshot = False
        self.database.raw.execute("COMMIT")

    def close(self) -> None:
        """Close the files."""
        self.database.close()

    @contextmanager
    def _named(self, table: TableName | None) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ServerError) as error:
            text = str(error)
            for own, servers in _TEXTS.items():
                text = text.replace(own, servers)
            raise named_error(text, self.connection, table=table, connecting=False) from None
