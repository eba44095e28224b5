"""Reading the log in tests: connections, positions, rows of batches, and the state that they fold to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow.parquet as pq

from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log.changes import RowKey
from framework.sources.databases.postgres.log.log_reader import LogReader
from framework.sources.databases.postgres.log.position import StartPosition, ensure_position
from framework.sources.databases.postgres.log.seen_partitions import PartitionWatch
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpoolLimits
from framework.sources.databases.tables import TableName

PUBLICATION = "sluice_publication"


def name(table: str) -> TableName:
    """A table of the schema `public`."""
    return TableName(schema="public", table=table)


def slot_of(uri: str) -> str:
    """A slot name of its own for each database of a test."""
    return f"slot_{uri.rpartition('/')[2]}"


def session(uri: str) -> Session:
    """A session that may write."""
    return Session(Connection(name="test", uri=uri), read_only=False)


class _Session(threading.local):
    """The last session of a thread: a new one for each statement takes 6 ms of CPU time of the server."""

    def __init__(self) -> None:
        self._uri = ""
        self._connection: psycopg2.extensions.connection | None = None

    def connected(self, uri: str) -> psycopg2.extensions.connection:
        """Return a connection without settings and temporary tables of earlier statements, in no transaction."""
        if self._connection is not None and self._uri == uri:
            with suppress(psycopg2.Error), self._connection.cursor() as cursor:  # the server may have ended it
                cursor.execute("DISCARD ALL")
                return self._connection
        if self._connection is not None:
            self._connection.close()
        self._uri, self._connection = uri, psycopg2.connect(uri)
        self._connection.autocommit = True
        return self._connection


_SESSION = _Session()


def execute(uri: str, *statements: str) -> None:
    """Run statements, each as a transaction of its own."""
    for statement in statements:
        query(uri, statement)


def set_server(uri: str, parameter: str, value: str) -> None:
    """Set a parameter of the server; returns when sessions that begin now have it."""
    execute(uri, f"ALTER SYSTEM SET {parameter} = '{value}'", "SELECT pg_reload_conf()")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:  # the server reads its files a moment later
        with closing(psycopg2.connect(uri)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW {parameter}")
            if cursor.fetchone() == (value,):
                return
    raise AssertionError(parameter, value)


def query(uri: str, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    """Run a statement as a transaction of its own in a session as it is at its begin; returns its rows, if it has some.

    The server holds a slot for a moment after its reader closed the connection: a statement that is refused for that is
    repeated for up to 30 s.
    """
    deadline = time.monotonic() + 30
    while True:
        try:
            with _SESSION.connected(uri).cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return list(cursor.fetchall()) if cursor.description else []
        except psycopg2.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def position(uri: str, *tables: str) -> StartPosition:
    """The position of the slot of this database, with these tables."""
    opened = session(uri)
    made = ensure_position(opened, slot_of(uri), PUBLICATION, [name(table) for table in tables])
    opened.close()
    return made


def reader(
    uri: str,
    start: StartPosition,
    folder: Path,
    *,
    limits: SpoolLimits | None = None,
    keys: Mapping[TableName, RowKey] | None = None,
    keeps_unreadable: bool = False,
    tables: Sequence[tuple[int, TableName]] = (),
    partitions: Sequence[tuple[int, TableName]] = (),
    histories: Sequence[TableName] = (),
    watch: PartitionWatch | None = None,
) -> LogReader:
    """A reader with the types of the database."""
    return LogReader(
        Connection(name="test", uri=uri), start.stored(), spool=Spool(folder, limits), keys=keys, slot_wait_seconds=15,
        keeps_unreadable=keeps_unreadable, tables=tables, partitions=partitions, histories=histories,
        watch=watch,
    )  # fmt: skip


def rows_of(batch: SpooledBatch) -> list[dict[str, Any]]:
    """The rows of a batch, in order."""
    found: list[dict[str, Any]] = []
    for file in batch.files:
        found += pq.read_table(file.path).to_pylist()
    return found


def brief(batch: SpooledBatch) -> list[tuple[str, str, Any]]:
    """Table, operation and decoded payload of each row."""
    return [
        (row["source_table"], row["operation"], None if row["payload"] is None else json.loads(row["payload"]))
        for row in rows_of(batch)
    ]


class Folded:
    """The tables that snapshot rows and rows of changes fold to; each row of changes counts once.

    Args:
        keys: columns of the key by `schema.table`.
    """

    def __init__(self, keys: Mapping[str, tuple[str, ...]]) -> None:
        self._keys = keys
        self._events: dict[tuple[int, int], dict[str, Any]] = {}
        self._snapshot: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {table: {} for table in keys}

    def add_snapshot(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows that were read from a table: below every change."""
        for row in rows:
            self._snapshot[table][self._key(table, row)] = dict(row)

    def add(self, batch: SpooledBatch) -> None:
        """Add the rows of a batch; the same row may be delivered again."""
        for row in rows_of(batch):
            before = self._events.setdefault((row["position"], row["ordinal"]), row)
            same = ("source_table", "commit_time", "schema_version")
            assert [before[column] for column in same] == [row[column] for column in same]
            # A row with values that the log left out may be gone when it is read again.
            assert row["operation"] == before["operation"] or "DELETE" in (row["operation"], before["operation"])

    def tables(self) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
        """The rows by key of each table."""
        state = {table: dict(rows) for table, rows in self._snapshot.items()}
        for _, event in sorted(self._events.items(), key=lambda item: item[0]):
            rows = state[event["source_table"]]
            if event["operation"] == "TRUNCATE":
                rows.clear()
                continue
            payload = json.loads(event["payload"])
            key = self._key(event["source_table"], payload)
            if event["operation"] == "DELETE":
                rows.pop(key, None)
            else:
                rows[key] = payload
        return state

    def _key(self, table: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[column] for column in self._keys[table])
