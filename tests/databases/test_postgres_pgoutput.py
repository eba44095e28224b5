"""The decoder of pgoutput: every message, byte for byte, and what the real server sends."""

from __future__ import annotations

import struct
from typing import Any

import psycopg2
import pytest

from framework.foundation.errors import InternalError
from framework.sources.databases.postgres.log.pgoutput import (
    OMITTED,
    Begin,
    Commit,
    DeleteMessage,
    InsertMessage,
    LogMessage,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    UpdateMessage,
    decode,
)
from framework.sources.databases.tables import TableName
from tests.support.postgres_log import PUBLICATION, execute, name, position, slot_of

_2000 = 946_684_800_000_000


def _row(*values: str | object | None) -> bytes:
    found = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            found += b"n"
        elif value is OMITTED:
            found += b"u"
        else:
            text = str(value).encode()
            found += b"t" + struct.pack(">I", len(text)) + text
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"B" + struct.pack(">QqI", 7, 5, 4_000_000_000), Begin(7, _2000 + 5, 4_000_000_000)),
        (b"C" + struct.pack(">BQQq", 0, 7, 9, -5), Commit(7, 9, _2000 - 5)),
        (b"O" + struct.pack(">Q", 3) + b"elsewhere\0", Origin(3, "elsewhere")),
        (b"Y" + struct.pack(">I", 70) + "s\0ü\0".encode(), Type(70, "s", "ü")),
        (
            b"R" + struct.pack(">I", 5) + b"\0t\0d" + struct.pack(">H", 1) + b"\1id\0" + struct.pack(">Ii", 23, -1),
            Relation(5, TableName(schema="pg_catalog", table="t"), "d", (RelationColumn("id", 23, -1, is_key=True),)),
        ),
        (b"I" + struct.pack(">I", 5) + b"N" + _row("é", None, ""), InsertMessage(5, ["é", None, ""])),
        (b"U" + struct.pack(">I", 5) + b"N" + _row("1", OMITTED), UpdateMessage(5, None, ["1", OMITTED])),
        (
            b"U" + struct.pack(">I", 5) + b"K" + _row("1", None) + b"N" + _row("2", "x"),
            UpdateMessage(5, ["1", None], ["2", "x"]),
        ),
        (
            b"U" + struct.pack(">I", 5) + b"O" + _row("1", "x") + b"N" + _row("1", "y"),
            UpdateMessage(5, ["1", "x"], ["1", "y"]),
        ),
        (b"D" + struct.pack(">I", 5) + b"K" + _row("1", None), DeleteMessage(5, ["1", None])),
        (b"D" + struct.pack(">I", 5) + b"O" + _row("1", "x" * 300), DeleteMessage(5, ["1", "x" * 300])),
        (b"T" + struct.pack(">IBII", 2, 3, 5, 6), Truncate((5, 6), cascade=True, restart_identity=True)),
        (
            b"M" + struct.pack(">BQ", 1, 8) + b"p\0" + struct.pack(">I", 3) + b"a\0b",
            Message(transactional=True, position=8, prefix="p", content=b"a\0b"),
        ),
    ],
)
def test_each_message_is_decoded(data: bytes, expected: LogMessage) -> None:
    """Also after other bytes, as in a message of the stream."""
    assert expected == decode(data)
    assert expected == decode(b"header" + data, 6)


@pytest.mark.parametrize("data", [b"X123", b"I" + struct.pack(">I", 5) + b"N" + struct.pack(">H", 1) + b"?"])
def test_an_unknown_message_is_no_silence(data: bytes) -> None:
    """What is not protocol version 1 is an error."""
    with pytest.raises(InternalError) as caught:
        decode(data)
    assert "POSTGRES_LOG_MESSAGE_UNKNOWN" == caught.value.condition


def test_the_schema_version_depends_on_the_columns_only() -> None:
    """Equal columns have an equal version in every process; each difference that may change a value makes another."""
    column = RelationColumn("id", 23, -1, is_key=True)
    relation = Relation(1, name("t"), "d", (column,))
    assert relation.schema_version == Relation(2, name("other"), "f", (column,)).schema_version
    others = [
        RelationColumn("id2", 23, -1, is_key=True),
        RelationColumn("id", 20, -1, is_key=True),
        RelationColumn("id", 1700, 655_366, is_key=True),
        RelationColumn("id", 1700, 655_368, is_key=True),
        RelationColumn("id", 25, -1, is_key=True),
    ]
    versions = {Relation(1, name("t"), "d", (other,)).schema_version for other in others}
    assert 6 == len(versions | {relation.schema_version})
    # The length of a text changes no value unless the rows are rewritten, which the catalog shows.
    texts = [RelationColumn("id", oid, length, is_key=True) for oid, length in ((25, -1), (1043, 14), (1043, 24))]
    assert 1 == len({Relation(1, name("t"), "d", (text,)).schema_version for text in texts})
    # Replica identity FULL and back, between two updates, changes no value.
    unkeyed = Relation(1, name("t"), "f", (RelationColumn("id", 23, -1, is_key=False),))
    assert 0 == relation.schema_version - unkeyed.schema_version
    assert 203_095_886_753_598_961 == relation.schema_version


def test_what_the_server_sends_is_decoded(database: str) -> None:
    """All kinds of rows and messages, as the server writes them."""
    execute(
        database,
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE t (id int PRIMARY KEY, feeling mood, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "CREATE TABLE o (id int PRIMARY KEY)",
    )
    position(database, "t", "o")
    execute(
        database,
        "INSERT INTO t VALUES (1, 'glad', repeat('y', 9000))",
        "UPDATE t SET feeling = NULL",
        "UPDATE t SET id = 2",
        "DELETE FROM t",
        "TRUNCATE t, o RESTART IDENTITY CASCADE",
        "SELECT pg_logical_emit_message(true, 'note', 'content')",
    )
    sent = _peek(database)
    assert {("public", "mood")} == {(message.schema, message.name) for message in sent if isinstance(message, Type)}
    found = [message for message in sent if not isinstance(message, Begin | Commit | Relation | Type)]
    [insert, update, key_update, delete, truncate, message] = found
    assert isinstance(insert, InsertMessage)
    assert ["1", "glad", "y" * 9000] == insert.new
    assert UpdateMessage(insert.relation, None, ["1", None, OMITTED]) == update
    assert UpdateMessage(insert.relation, ["1", None, None], ["2", None, OMITTED]) == key_update
    assert DeleteMessage(insert.relation, ["2", None, None]) == delete
    assert isinstance(truncate, Truncate)
    assert (2, True, True) == (len(truncate.relations), truncate.cascade, truncate.restart_identity)
    assert isinstance(message, Message)
    assert (True, "note", b"content") == (message.transactional, message.prefix, message.content)


def _peek(uri: str) -> list[LogMessage]:
    connection = psycopg2.connect(uri)
    cursor: Any = connection.cursor()
    cursor.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
        " 'publication_names', %s, 'messages', 'true')",
        [slot_of(uri), PUBLICATION],
    )
    found = [decode(bytes(data)) for (data,) in cursor.fetchall()]
    connection.close()
    return found
