"""A change with a value that Spark lacks fails the flow of its table, and no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.streams.spool import SpooledBatch
from tests.support.postgres_log import execute, name, position, query, reader, rows_of

_BIG = "x" * 10000
_CREATE = (
    "CREATE TABLE t (id int PRIMARY KEY, d date, amount numeric(5,2), tags int[])",
    "CREATE TABLE moved (d date PRIMARY KEY, n int)",
    "CREATE TABLE large (id int PRIMARY KEY, n int, big text); ALTER TABLE large ALTER big SET STORAGE EXTERNAL",
    f"INSERT INTO large VALUES (1, 0, '{_BIG}'), (2, 0, 'small')",
)
_CHANGES = (
    "INSERT INTO t VALUES (1, 'infinity'), (2, '2024-01-02')",
    "UPDATE t SET d = '2024-01-01' WHERE id = 1; UPDATE t SET amount = 'NaN' WHERE id = 2",
    "UPDATE t SET tags = '{{1},{2}}', amount = 0; DELETE FROM t WHERE id = 2",
    "INSERT INTO moved VALUES ('infinity', 1); UPDATE moved SET d = '2024-01-03'; UPDATE moved SET d = '0044-03-15 BC'",
    "DELETE FROM moved; UPDATE large SET n = id",
)


def _read(uri: str, start: object, folder: Path, *, keeps_unreadable: bool = True) -> SpooledBatch:
    log = reader(uri, start, folder, keeps_unreadable=keeps_unreadable)  # type: ignore[arg-type]
    try:
        return log.read_transactions(start.lsn)  # type: ignore[attr-defined]
    finally:
        log.close()


def _reason(value: str, column: str, kind: str, table: str = "t") -> str:
    return (
        f"The value {value} in column {column} of public.{table} cannot be represented: "
        f"Spark has no such value for the type {kind}."
    )


def test_each_row_that_is_unreadable_is_marked_with_its_reason(database: str, tmp_path: Path) -> None:
    """In new and old rows, in keys, and in rows that are read again; their neighbours are as ever, in their order."""
    execute(database, *_CREATE)
    own = f"reader_{database.rpartition('_')[2]}"
    execute(database, f"CREATE ROLE {own} LOGIN REPLICATION")
    start = position(database, "t", "moved", "large")
    execute(database, *_CHANGES)
    batch = _read(database.replace("postgres@", f"{own}@"), start, tmp_path / "spool")
    execute(database, f"DROP ROLE {own}")
    forbidden = next(row["payload"] for row in rows_of(batch) if row["source_table"] == "public.large")
    assert "permission denied for table large" in forbidden
    assert [(row["source_table"][7:], row["ordinal"], row["operation"], row["payload"]) for row in rows_of(batch)] == [
        ("t", 0, "UNREADABLE", _reason("infinity", "d", "date")),
        ("t", 1, "INSERT", '{"id":2,"d":"2024-01-02","amount":null,"tags":null}'),
        ("t", 0, "UPDATE", '{"id":1,"d":"2024-01-01","amount":null,"tags":null}'),
        ("t", 1, "UNREADABLE", _reason("NaN", "amount", "numeric(5,2)")),
        ("t", 0, "UNREADABLE", _reason("{{1},{2}}", "tags", "integer[]")),
        ("t", 1, "UNREADABLE", _reason("{{1},{2}}", "tags", "integer[]")),
        ("t", 2, "DELETE", '{"id":2}'),
        ("moved", 0, "UNREADABLE", _reason("infinity", "d", "date", "moved")),
        ("moved", 1, "UNREADABLE", _reason("infinity", "d", "date", "moved")),
        ("moved", 2, "INSERT", '{"d":"2024-01-03","n":1}'),
        ("moved", 3, "DELETE", '{"d":"2024-01-03"}'),
        ("moved", 4, "UNREADABLE", _reason("0044-03-15 BC", "d", "date", "moved")),
        ("moved", 0, "UNREADABLE", _reason("0044-03-15 BC", "d", "date", "moved")),
        ("large", 1, "UNREADABLE", forbidden),
        ("large", 2, "UPDATE", '{"id":2,"n":2,"big":"small"}'),
    ]
    with pytest.raises(SourceError) as caught:
        _read(database, start, tmp_path / "again", keeps_unreadable=False)
    assert (caught.value.condition, caught.value.fields["table"]) == ("DATABASE_VALUE_NOT_REPRESENTABLE", name("t"))


def test_a_text_that_is_not_utf8_is_unreadable(server: PostgresServer, tmp_path: Path) -> None:
    """A database with the encoding SQL_ASCII takes any bytes; the server would end the stream of UTF-8 at them."""
    execute(server.uri(), "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    uri = server.uri("ascii")
    execute(uri, "CREATE TABLE t (id int PRIMARY KEY, b text)")
    start = position(uri, "t")
    execute(
        uri, "INSERT INTO t VALUES (1, E'\\xc3\\xa9')", "UPDATE t SET b = E'\\xff'", "INSERT INTO t VALUES (2, 'b')"
    )
    batch = _read(uri, start, tmp_path / "spool")
    query(uri, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'ascii'")
    execute(server.uri(), "DROP DATABASE ascii WITH (FORCE)")
    assert [(row["operation"], row["payload"]) for row in rows_of(batch)] == [
        ("INSERT", '{"id":1,"b":"é"}'),
        ("UNREADABLE", "A text of public.t in the log is not UTF-8: invalid start byte."),
        ("INSERT", '{"id":2,"b":"b"}'),
    ]
