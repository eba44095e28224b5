"""Rights that a user of MariaDB loses between two updates: each is named, and granted by what is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.mysql_copies import SCHEMA, USER, Copies
from tests.support.mysql_programs import MARIADB
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[..., MysqlServer]
_COLUMNS = "(id INT PRIMARY KEY, v INT, w INT NOT NULL, d DATE)"


def test_rights_that_are_lost_are_granted_by_what_is_printed(
    own_server: Start, interpreting: SparkSession, tmp_path: Path
) -> None:
    """A changed password, then each right; what changed meanwhile comes from the log, and nothing is read again."""
    server = own_server(MARIADB)
    copies = Copies(server=server, spark=interpreting, folder=tmp_path, is_plain=True)
    copies.create(f"CREATE TABLE t {_COLUMNS}", "INSERT INTO t VALUES (1, 1, 1, NULL)")
    assert copies.update() == {}
    generations = [each["generation"] for each in copies.status()["tables"]]

    server.query(f"ALTER USER {USER}@'%%' IDENTIFIED BY %s", "another")
    copies.run("UPDATE t SET v = 2")
    failed = copies.update()
    assert {error.condition for error in failed.values()} == {"DATABASE_LOGIN_REFUSED"}
    connections = tmp_path / "connections.yml"
    connections.write_text(connections.read_text("utf-8").replace(f"{USER}@", f"{USER}:another@"), "utf-8")

    for right in (f"SELECT ON {SCHEMA}.*", "REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"):
        server.query(f"REVOKE {right} FROM {USER}@'%'")
    copies.run("UPDATE t SET w = 2")
    assert copies.settle() == {"DATABASE_PERMISSION"}
    assert sorted(copies.followed) == [
        f"GRANT REPLICATION CLIENT ON *.* TO '{USER}'@'%'",
        f"GRANT REPLICATION SLAVE ON *.* TO '{USER}'@'%'",
        f"GRANT SELECT ON `{SCHEMA}`.* TO '{USER}'@'%'",
    ]
    assert copies.differing("t") == {}
    assert [each["generation"] for each in copies.status()["tables"]] == generations
