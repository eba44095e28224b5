"""Positions of the log that are safe while transactions commit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.history import LogHistory, open_stream
from framework.sources.databases.mysql.log.binlog_connection import LogStart
from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.log.texts import ServerTexts
from framework.sources.databases.mysql.log.transactions import Commit, Idle, TransactionReader
from framework.sources.databases.mysql.position import read_log_end, safe_position
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.tables import TableName
from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer

_WRITERS, _LOOKS = 4, 60
_PREPARE = ("XA START '{0}'", "INSERT INTO t VALUES ({0})", "XA END '{0}'", "XA PREPARE '{0}'")
_UNKNOWN_XID = 1397
_GTIDS = {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}
# A transaction of MySQL is in the log for 5 ms before it is visible, as it is while it waits for a disk or a replica.
_SLOW = {"sync-binlog": "0", "binlog-group-commit-sync-delay": "5000"}
_LOCKS = {"performance-schema": "ON", "gtid-mode": "OFF"}
_SERVERS = {
    "mariadb": (MARIADB, {"sync-binlog": "1"}),
    "mysql with GTIDs": (MYSQL, {**_SLOW, **_GTIDS}),
    "mysql without GTIDs": (MYSQL, {**_SLOW, **_LOCKS}),
}


@contextmanager
def _writers(server: MysqlServer) -> Iterator[None]:
    """Insert rows in 4 connections, each row in a transaction of its own; those of two connections are of XA."""
    is_over = threading.Event()

    def write(number: int) -> None:
        value = number
        with server.connect("d") as connection, connection.cursor() as cursor:
            while not is_over.is_set():
                if number < _WRITERS // 2:
                    cursor.execute("INSERT INTO t VALUES (%s)", [value])
                elif number == _WRITERS - 1:
                    _call(cursor, value, *_PREPARE, "XA COMMIT '{0}'")
                else:
                    with server.connect("d") as other, other.cursor() as own:
                        _call(own, value, *_PREPARE)
                    _commit_when_free(cursor, value)
                value += _WRITERS

    threads = [threading.Thread(target=write, args=(each,)) for each in range(_WRITERS)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        is_over.set()
        for each in threads:
            each.join()


def _call(cursor: Any, value: int, *statements: str) -> None:
    for statement in statements:
        cursor.execute(statement.format(value))


def _commit_when_free(cursor: Any, value: int) -> None:
    """Commit the prepared transaction of a connection that has ended, when the server knows that it has."""
    for _ in range(1000):
        try:
            _call(cursor, value, "XA COMMIT '{0}'")
        except pymysql.Error as error:
            if error.args[0] != _UNKNOWN_XID:
                raise
            time.sleep(0.001)
        else:
            return


def _logged(connection: Connection, start: LogPlace, end: LogPlace) -> dict[int, LogPlace]:
    """Return the rows in the log between two places, with the places where their transactions begin."""
    stream = open_stream(connection, LogStart(server_id=7, place=start, heartbeat_seconds=0.1))
    buffer, found = ChangeBuffer(), dict[int, LogPlace]()
    tables = {TableName(schema="d", table="t"): CopiedTable(key=("id",))}
    with Session(connection) as session:
        reader = TransactionReader(
            stream,
            tables,
            buffer,
            ServerTexts(session.rows),
            reopen=lambda place: open_stream(connection, LogStart(server_id=8, place=place, heartbeat_seconds=0.1)),
        )
        for step in reader.steps():
            if isinstance(step, Commit):
                found |= {json.loads(each or "{}")["id"]: step.begin for each in buffer.payloads}
                buffer.clear()
            if isinstance(step, Commit | Idle) and not step.place < end:
                break
    stream.close()
    return found


def _missed(server: MysqlServer, look: Callable[[Session], LogPlace]) -> list[set[int]]:
    """Return, for each look at the log, the rows that are in the log before it and that a later read did not see."""
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY)")
    connection = Connection(name="bank", uri=server.uri("d"))
    looks = []
    with Session(connection) as session:
        first = read_log_end(session)
        with _writers(server), Session(connection) as reader:
            while not reader.rows("SELECT id FROM t LIMIT 1"):
                pass
            for _ in range(_LOOKS):
                place = look(session)
                looks.append((place, {id_ for (id_,) in reader.rows("SELECT id FROM t")}))
        logged = _logged(connection, first, read_log_end(session))
    assert {id_ for (id_,) in server.query("SELECT id FROM d.t")} == set(logged)
    return [{id_ for id_, begin in logged.items() if begin < place} - seen for place, seen in looks]


@pytest.mark.parametrize("name", _SERVERS)
def test_all_below_a_safe_position_is_visible(own_server: Callable[..., MysqlServer], name: str) -> None:
    """While four writers commit, a read after the position sees each transaction that the log has before it."""
    program, settings = _SERVERS[name]
    missed = _missed(own_server(program, settings), lambda session: safe_position(session).place)
    assert missed == [set()] * _LOOKS


def test_the_end_of_the_log_alone_is_not_safe(own_server: Callable[..., MysqlServer]) -> None:
    """A transaction is logged before it is visible: the test above can fail."""
    missed = _missed(own_server(MYSQL, {**_SLOW, **_GTIDS}), read_log_end)
    assert any(missed)


def test_the_transactions_before_a_place_are_known(own_server: Callable[..., MysqlServer]) -> None:
    """Of both servers, also in a later file: a successor is asked for what comes after them."""
    for name, settings in ((MARIADB, {}), (MYSQL, _GTIDS)):
        server = own_server(name, settings)
        server.query("CREATE DATABASE d")
        server.query("FLUSH BINARY LOGS")
        server.query("CREATE TABLE d.t (id INT PRIMARY KEY)")
        server.query("INSERT INTO d.t VALUES (1), (2)")
        with Session(Connection(name="bank", uri=server.uri())) as session:
            found = safe_position(session)
            server.query("INSERT INTO d.t VALUES (3)")
            assert found.gtids != safe_position(session).gtids
            history = LogHistory(session, "bank")
            assert history.gtids_before(found.place) == found.gtids
            if not server.is_mariadb:
                # A transaction that came between the place and its GTIDs would count as read.
                late = replace(found, gtids=safe_position(session).gtids)
                assert history.exact(late) == found
