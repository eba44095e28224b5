"""What breaks between two reads of the log: what was lost is named, and a successor with the same GTIDs goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.changes_source import MysqlLog
from framework.sources.databases.mysql.history import LogHistory
from framework.sources.databases.mysql.position import safe_position
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.position import position_of
from tests.support.mysql_changes import changes, log_of
from tests.support.mysql_programs import KNOWN, MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer

_GTIDS = {MYSQL: {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}}
_LOST = "DATABASE_POSITION_LOST"
_DURABLE = {"sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1"}
Start = Callable[..., MysqlServer]


def _server(start: Start, name: str, **more: int) -> MysqlServer:
    return start(name, {**_DURABLE, **_GTIDS.get(name, {}), "log-slave-updates": "ON"}, **more)


def _fill(server: MysqlServer) -> None:
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY)")


def _insert(server: MysqlServer, *ids: int) -> None:
    for each in ids:
        server.query("INSERT INTO d.t VALUES (%s)", each)


def _read(log: MysqlLog, start: str) -> tuple[list[int], str]:
    """Return the keys of the inserts up to the end of the log, and the offset there."""
    batch, end = log.read_transactions(start, None)
    assert batch.caught_up
    return [payload["id"] for _, payload in changes(batch)], end


def _lost(server: MysqlServer, folder: Path, stored: str, table: str = "d.t") -> SourceError:
    """Return the error of a read, which is the gap that a look at the status finds, too."""
    with pytest.raises(SourceError) as caught:
        log_of(server, [table], folder).read_transactions(stored, None)
    with Session(Connection(name="bank", uri=server.uri())) as session:
        gap = LogHistory(session, "test").find_gap(StoredPosition.from_json(stored))
    assert gap is not None
    assert gap.condition == caught.value.condition
    return caught.value


def test_a_range_that_ends_in_a_new_file_ends_there_again(
    mysql_server: MysqlServer, database: str, tmp_path: Path
) -> None:
    """Between the events that begin a file and its first transaction, which would come twice."""
    table = f"{database.rpartition('/')[2]}.t"
    mysql_server.query(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    log = log_of(mysql_server, [table], tmp_path)
    start = log.start()
    mysql_server.query(f"INSERT INTO {table} VALUES (1)")
    mysql_server.query("FLUSH BINARY LOGS")
    planned, end = log.read_transactions(start, None)
    log.close()
    mysql_server.query(f"INSERT INTO {table} VALUES (2)")
    again = log_of(mysql_server, [table], tmp_path)
    found = again.read_range(start, end)
    assert ([1], planned.end) == ([payload["id"] for _, payload in changes(found)], found.end)
    assert _read(again, end)[0] == [2]
    again.close()


@pytest.mark.parametrize("name", KNOWN)
def test_a_log_that_was_purged_is_a_gap(own_server: Start, tmp_path: Path, name: str) -> None:
    """The changes after the position are gone."""
    server = _server(own_server, name)
    _fill(server)
    log = log_of(server, ["d.t"], tmp_path)
    start = log.start()
    log.close()
    _insert(server, 1)
    server.purge_log()
    assert _lost(server, tmp_path, start).condition == f"{_LOST}.LOG_REMOVED"


@pytest.mark.parametrize("name", KNOWN)
def test_a_log_that_was_reset_is_a_gap(own_server: Start, tmp_path: Path, name: str) -> None:
    """RESET begins the log at its first file again; also when it is longer than before."""
    server = _server(own_server, name)
    _fill(server)
    log = log_of(server, ["d.t"], tmp_path)
    _insert(server, 1, 2, 3)
    start = log.start()
    log.close()
    server.query("RESET MASTER" if server.is_mariadb else "RESET BINARY LOGS AND GTIDS")
    assert _lost(server, tmp_path, start).condition == f"{_LOST}.LOG_RESET"
    _insert(server, *range(10, 40))
    assert _lost(server, tmp_path, start).condition == f"{_LOST}.LOG_REPLACED"


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_a_server_that_was_put_back_is_a_gap(own_server: Start, tmp_path: Path, name: str) -> None:
    """An image of the machine has the same file and the same identity, but other transactions after it."""
    server = _server(own_server, name)
    _fill(server)
    server.stop()
    shutil.copytree(server.folder / "data", tmp_path / "image")
    server.start()
    log = log_of(server, ["d.t"], tmp_path / "spool")
    start = log.start()
    _insert(server, 1, 2, 3)
    found, stored = _read(log, start)
    assert found == [1, 2, 3]
    log.close()
    server.kill()
    shutil.rmtree(server.folder / "data")
    shutil.copytree(tmp_path / "image", server.folder / "data")
    server.start()
    assert _lost(server, tmp_path / "spool", stored).condition == f"{_LOST}.LOG_RESET"
    _insert(server, *range(10, 40))
    assert _lost(server, tmp_path / "spool", stored).condition == f"{_LOST}.LOG_REPLACED"


@pytest.mark.parametrize("name", KNOWN)
def test_a_promoted_replica_goes_on_in_a_new_epoch(own_server: Start, tmp_path: Path, name: str) -> None:
    """No row is read twice and none is lost, whatever the numbers of its log are; orders still grow."""
    primary = _server(own_server, name)
    replica = _server(own_server, name, server_id=2)
    replica.replicate_from(primary)
    _fill(primary)
    log = log_of(primary, ["d.t"], tmp_path)
    _insert(primary, 1)
    start = log.start()
    _insert(primary, 2, 3)
    for _ in range(3):
        primary.query("FLUSH BINARY LOGS")
    _insert(primary, 4)
    found, stored = _read(log, start)
    log.close()
    _insert(primary, 5)
    primary.await_replica(replica)
    primary.kill()
    replica.query("STOP SLAVE" if replica.is_mariadb else "STOP REPLICA")
    _insert(replica, 6)
    after = log_of(replica, ["d.t"], tmp_path)
    more, end = _read(after, stored)
    _insert(replica, 7)
    last, _ = _read(after, end)
    after.close()
    # While tables of the old server are not proven right, its successor is refused; its own tables are no reason.
    for servers, is_refused in (([position_of(stored).log], True), ([position_of(end).log], False)):
        guarded = log_of(replica, ["d.t"], tmp_path, servers=json.dumps(servers))
        with pytest.raises(SourceError, match="MYSQL_SERVER_TAKEN_OVER") if is_refused else nullcontext():
            _read(guarded, stored)
        guarded.close()
    assert (found, more, last) == ([2, 3, 4], [5, 6], [7])
    assert position_of(stored).order < position_of(end).order
    assert StoredPosition.from_json(end).place.epoch == 1


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_a_planned_range_is_read_again_at_a_promoted_replica(own_server: Start, tmp_path: Path, name: str) -> None:
    """A batch that was planned before the failover and not committed has the same rows, between the same orders."""
    primary = _server(own_server, name)
    replica = _server(own_server, name, server_id=2)
    replica.replicate_from(primary)
    _fill(primary)
    log = log_of(primary, ["d.t"], tmp_path)
    start = log.start()
    _insert(primary, 1, 2, 3)
    _, planned = _read(log, start)
    log.close()
    _insert(primary, 4)
    primary.await_replica(replica)
    primary.kill()
    after = log_of(replica, ["d.t"], tmp_path)
    batch = after.read_range(start, planned)
    more, _ = _read(after, planned)
    after.close()
    assert [payload["id"] for _, payload in changes(batch)] == [1, 2, 3]
    assert (batch.start, batch.end) == (position_of(start).order, position_of(planned).order)
    assert more == [4]


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_a_server_that_lacks_transactions_is_a_gap(own_server: Start, tmp_path: Path, name: str) -> None:
    """A replica that was promoted before it had all that was read, and a server without any of it."""
    primary = _server(own_server, name)
    replica = _server(own_server, name, server_id=2)
    replica.replicate_from(primary)
    _fill(primary)
    log = log_of(primary, ["d.t"], tmp_path)
    start = log.start()
    primary.await_replica(replica)
    replica.query("STOP SLAVE" if replica.is_mariadb else "STOP REPLICA")
    _insert(primary, 1)
    _, stored = _read(log, start)
    log.close()
    primary.kill()
    _insert(replica, 9)
    assert _lost(replica, tmp_path, stored).condition == f"{_LOST}.GTIDS_MISSING"
    # So is a batch that was planned up to there, which would wait for them for ever.
    with pytest.raises(SourceError, match="GTIDS_MISSING"):
        log_of(replica, ["d.t"], tmp_path).read_range(start, stored)


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_a_successor_with_unread_transactions_is_a_gap_of_their_tables(
    own_server: Start, tmp_path: Path, name: str
) -> None:
    """Made at the replica before later ones that were read; copies of other tables go on, and no row comes twice."""
    primary = _server(own_server, name)
    replica = _server(own_server, name, server_id=2)
    replica.replicate_from(primary)
    _fill(primary)
    primary.query("CREATE TABLE d.u (id INT PRIMARY KEY)")
    primary.await_replica(replica)
    replica.query("INSERT INTO d.u VALUES (50)")
    stored = {}
    for table in ("d.t", "d.u"):
        log = log_of(primary, [table], tmp_path / table)
        start = log.start()
        _insert(primary, *([1, 2] if table == "d.t" else [3]))
        stored[table] = log.read_transactions(start, None)[1]
        log.close()
    _insert(primary, 4)
    primary.await_replica(replica)
    primary.kill()
    replica.query("STOP SLAVE" if replica.is_mariadb else "STOP REPLICA")
    _insert(replica, 5)
    after = log_of(replica, ["d.t"], tmp_path)
    more, end = _read(after, stored["d.t"])
    _insert(replica, 6)
    last, _ = _read(after, end)
    after.close()
    assert (more, last) == ([3, 4, 5], [6])
    error = _lost(replica, tmp_path, stored["d.u"], "d.u")
    assert error.condition == f"{_LOST}.GTIDS_UNREAD"


def test_a_domain_that_a_successor_does_not_know_is_a_gap(own_server: Start, tmp_path: Path) -> None:
    """MariaDB itself would go on, and never send what the domain has."""
    primary, replica = _server(own_server, MARIADB), _server(own_server, MARIADB, server_id=2)
    replica.replicate_from(primary)
    _fill(primary)
    primary.await_replica(replica)
    replica.query("STOP SLAVE")
    log = log_of(primary, ["d.t"], tmp_path)
    start = log.start()
    primary.query("SET GLOBAL gtid_domain_id = 5")
    _insert(primary, 1)
    found, stored = _read(log, start)
    assert found == [1]
    log.close()
    _insert(replica, 9)
    primary.kill()
    assert _lost(replica, tmp_path, stored).condition == f"{_LOST}.GTIDS_MISSING"


def test_another_server_without_gtids_is_a_gap(own_server: Start, tmp_path: Path) -> None:
    """Nothing says that its log continues the one that was read."""
    settings = {"performance-schema": "ON", "gtid-mode": "OFF"}
    first, second = own_server(MYSQL, settings), own_server(MYSQL, settings)
    for server in (first, second):
        _fill(server)
    log = log_of(first, ["d.t"], tmp_path)
    start = log.start()
    log.close()
    assert _lost(second, tmp_path, start).condition == f"{_LOST}.SOURCE"


def test_a_log_begins_where_a_snapshot_began_or_not_at_all(own_server: Start, tmp_path: Path) -> None:
    """If the log was not read before it was reset, or before another server took its place, nothing is guessed."""
    server, other = (_server(own_server, MARIADB, server_id=number) for number in (1, 2))
    for each in (server, other):
        _fill(each)
        _insert(each, 1, 2)
    with Session(Connection(name="bank", uri=server.uri())) as session:
        begun = safe_position(session)
    options = {"notAfter": str(begun.order), "snapshots": json.dumps(["", begun.to_json()])}

    def start(where: MysqlServer) -> str:
        log = log_of(where, ["d.t"], tmp_path, **options)
        try:
            return log.start()
        finally:
            log.close()

    _insert(server, 3)
    assert StoredPosition.from_json(start(server)).place == begun.place
    _insert(other, *range(3, 20))
    with pytest.raises(SourceError, match=f"{_LOST}.SOURCE"):
        start(other)
    server.query("RESET MASTER")
    with pytest.raises(SourceError, match=f"{_LOST}.LOG_RESET"):
        start(server)
    _insert(server, *range(10, 40))
    with pytest.raises(SourceError, match=f"{_LOST}.LOG_REPLACED"):
        start(server)


def test_a_stream_that_begins_again_is_after_all_earlier_positions(own_server: Start, tmp_path: Path) -> None:
    """As after a full refresh of the changes: the numbers of a log that was reset are lower than before."""
    server = _server(own_server, MARIADB)
    _fill(server)
    server.query("FLUSH BINARY LOGS")
    log = log_of(server, ["d.t"], tmp_path)
    before = position_of(log.start()).order
    log.close()
    server.query("RESET MASTER")
    again = log_of(server, ["d.t"], tmp_path, advanceTo=str(before))
    start = again.start()
    _insert(server, 1)
    assert _read(again, start)[0] == [1]
    again.close()
    assert position_of(start).order > before
