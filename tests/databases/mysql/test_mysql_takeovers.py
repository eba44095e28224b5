"""A server is replaced while a table is read: rows and positions of one server never count on another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.mysql_copies import Copies
from tests.support.mysql_programs import MARIADB
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {"sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1", "log-slave-updates": "ON"}
_TABLES = ("a", "b")
_CREATE = (
    "CREATE TABLE a (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE b (id INT PRIMARY KEY, n INT)",
    "INSERT INTO a SELECT seq, 0 FROM seq_1_to_50",
    "INSERT INTO b SELECT seq, 0 FROM seq_1_to_50",
)


def _generations(copies: Copies) -> dict[str, int]:
    return {table["table"]: table["generation"] for table in copies.status()["tables"]}


def test_a_table_that_is_read_while_servers_change_begins_again(
    own_server: Callable[..., MysqlServer], interpreting: SparkSession, tmp_path: Path
) -> None:
    """Positions of a resync on another server, and rows that its successor lacks, are not kept; proven rows are."""
    primary, replica = own_server(MARIADB, _SETTINGS), own_server(MARIADB, _SETTINGS, server_id=2)
    replica.replicate_from(primary)
    copies = Copies(server=primary, spark=interpreting, folder=tmp_path, is_plain=True)
    copies.create(*_CREATE)
    assert copies.update() == {}
    assert copies.update() == {}

    # A resync begins on the replica; its table is read after the connection leads to the primary again.
    primary.await_replica(replica)
    copies.connect(replica)
    copies.sluice("sluice ingest resync d.a")
    copies.update("copies.b")
    copies.connect(primary)
    copies.run("UPDATE a SET n = 1 WHERE id < 10", "UPDATE b SET n = 1 WHERE id < 10")
    assert copies.update() == {}
    copies.run("UPDATE a SET n = 2 WHERE id < 5", "DELETE FROM a WHERE id = 40")
    assert copies.update() == {}
    assert copies.differing(*_TABLES) == {}
    assert _generations(copies) == {"d.a": 2, "d.b": 0}

    # The rows of a table are read, and its changes are not; the successor lacks the last of both.
    primary.await_replica(replica)
    replica.query("STOP SLAVE")
    copies.run("INSERT INTO a VALUES (900, 900)")
    copies.sluice("sluice ingest resync d.a")
    assert copies.update("copies.a") == {}
    assert copies.differing(*_TABLES) == {}
    primary.kill()
    replica.promote()
    copies.connect(replica)
    copies.run("UPDATE a SET n = 3 WHERE id < 3")
    assert copies.update() == {}
    assert copies.update() == {}
    assert copies.differing(*_TABLES) == {}
    assert _generations(copies) == {"d.a": 4, "d.b": 0}
