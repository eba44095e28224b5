"""The reader of PostgreSQL's log delivers whole transactions, exactly once per position, and acknowledges nothing else."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import InternalError, SourceError
from framework.sources.databases.postgres.log_reader import LogReader, ReadLimit
from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.postgres.spool import SpoolLimits
from tests.support.postgres_log import brief, execute, name, position, query, reader, rows_of, slot_of

_TABLE = "public.t"


def _confirmed(uri: str) -> int:
    [(lsn,)] = query(uri, f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot_of(uri)}'")
    return parse_lsn(lsn)


def _wait_confirmed(uri: str, lsn: int) -> None:
    deadline = time.monotonic() + 10
    while _confirmed(uri) < lsn:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_operation_becomes_rows_in_the_order_of_the_log(database: str, tmp_path: Path) -> None:
    """A key update is a deletion and an insertion, a deletion has the key, a truncation has no payload."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, name text, ok boolean)")
    start = position(database, "t")
    execute(
        database,
        "INSERT INTO t VALUES (1, 'a\"b', true), (2, NULL, false)",
        "UPDATE t SET name = 'c' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "TRUNCATE t",
    )
    log = reader(database, start, tmp_path / "spool")
    batch = log.read_transactions(start.lsn)
    log.close()
    assert [
        (_TABLE, "INSERT", {"id": 1, "name": 'a"b', "ok": True}),
        (_TABLE, "INSERT", {"id": 2, "name": None, "ok": False}),
        (_TABLE, "UPDATE", {"id": 1, "name": "c", "ok": True}),
        (_TABLE, "DELETE", {"id": 2}),
        (_TABLE, "INSERT", {"id": 3, "name": None, "ok": False}),
        (_TABLE, "DELETE", {"id": 3}),
        (_TABLE, "TRUNCATE", None),
    ] == brief(batch)
    assert [0, 1, 0, 0, 1, 0, 0] == [row["ordinal"] for row in rows_of(batch)]
    assert batch.caught_up
    assert 5 == batch.transactions
