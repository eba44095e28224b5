"""What happens to the server of copies: it fails over, or its log has a gap, which is named and ends as printed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework.ingest.gateway_status import NEW_SLOT
from tests.support.mysql_copies import Copies, commands_of
from tests.support.mysql_programs import MARIADB
from tests.support.mysql_servers import MysqlServer
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[..., MysqlServer]
_SETTINGS = {"sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1", "log-slave-updates": "ON"}
_TABLES = ("a", "b")
_CREATE = (
    "CREATE TABLE a (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE b (k INT, part VARCHAR(9), n INT, PRIMARY KEY (k, part))",
    "INSERT INTO a SELECT seq, 0 FROM seq_1_to_50",
    "INSERT INTO b SELECT seq, 'x', 0 FROM seq_1_to_50",
)
_LOST = "DATABASE_POSITION_LOST"


def _copies(server: MysqlServer, spark: SparkSession, folder: Path) -> Copies:
    copies = Copies(server=server, spark=spark, folder=folder, is_plain=True)
    copies.create(*_CREATE)
    assert copies.update() == {}
    return copies


def _change(copies: Copies, number: int) -> None:
    """Insert a row with this number, and change, move and delete others."""
    copies.run(
        f"INSERT INTO a VALUES ({number}, {number})",
        f"UPDATE a SET n = {number} WHERE id = 1",
        f"UPDATE b SET k = {number} WHERE k = {number % 50}",
        f"DELETE FROM b WHERE k = {number % 50 + 10}",
    )


def _inserted(copies: Copies) -> list[int]:
    """Return the keys of `a` whose inserts are staged, each as often as it was read from the log."""
    path = copies.pipeline().storage.path("tables", "main", "default", "shop_changes")
    rows = table_rows(copies.spark, path)
    return sorted(
        json.loads(row.payload)["id"] for row in rows if (row.source_table, row.operation) == ("d.a", "INSERT")
    )


def _generations(copies: Copies) -> set[int]:
    return {table["generation"] for table in copies.status()["tables"]}


def _assert_named(copies: Copies, condition: str) -> str:
    """Assert that the update, the status and the doctor name a gap; return the command that all of them print."""
    failed = copies.update()
    assert {flow: error.condition for flow, error in failed.items()} == {"shop_changes": condition}
    status = copies.status()
    assert status["gap"] == condition
    assert {(table["state"], table["way_out"]) for table in status["tables"]} == {("GAP", NEW_SLOT)}
    (finding,) = copies.pipeline().doctor.examine().findings
    assert finding.condition == condition
    assert [way.command for way in finding.ways if way.command] == [f"{NEW_SLOT} --gateway shop"]
    assert commands_of(failed["shop_changes"]) == [NEW_SLOT]
    return NEW_SLOT


def _mend(copies: Copies, condition: str) -> None:
    copies.sluice(_assert_named(copies, condition))
    assert copies.update() == {}
    assert copies.differing(*_TABLES) == {}


def test_a_successor_goes_on_and_one_that_lacks_transactions_is_named(
    own_server: Start, interpreting: SparkSession, tmp_path: Path
) -> None:
    """With the same GTIDs no row is read twice, in the log or from a table; a server that was left behind is a gap.

    What is read again on the successor, or from a new begin of its log, is newer than all that was read before.
    """
    primary, replica = own_server(MARIADB, _SETTINGS), own_server(MARIADB, _SETTINGS, server_id=2)
    replica.replicate_from(primary)
    copies = _copies(primary, interpreting, tmp_path)
    before = _generations(copies)
    _change(copies, 101)
    assert copies.update() == {}
    _change(copies, 102)
    primary.await_replica(replica)
    primary.kill()
    assert {error.condition for error in copies.update().values()} == {"DATABASE_UNREACHABLE"}
    replica.query("STOP SLAVE")
    copies.connect(replica)
    _change(copies, 103)
    assert copies.update() == {}
    assert copies.differing(*_TABLES) == {}
    assert (_inserted(copies), _generations(copies)) == ([101, 102, 103], before)

    # A snapshot on the new server is after all that was read on the old one: it replaces this change.
    copies.run("ALTER TABLE a DROP COLUMN n, ADD COLUMN n INT")
    assert copies.settle() == {"INGESTION_CHANGE_UNREADABLE"}
    assert copies.followed == ["sluice ingest resync d.a"]
    assert copies.differing(*_TABLES) == {}
    before = _generations(copies)

    primary.start()
    copies.connect(primary)
    _assert_named(copies, f"{_LOST}.GTIDS_MISSING")
    copies.connect(replica)
    _change(copies, 104)
    assert copies.update() == {}
    assert copies.differing(*_TABLES) == {}
    assert (_inserted(copies), _generations(copies)) == ([101, 102, 103, 104], before)

    # Changes that are read from a new begin are after that snapshot, too.
    copies.pipeline().run(full_refresh_all=True)
    _change(copies, 105)
    assert copies.update() == {}
    assert copies.differing(*_TABLES) == {}


def test_each_gap_of_the_log_ends_as_it_is_printed(
    own_server: Start, interpreting: SparkSession, tmp_path: Path
) -> None:
    """A log that was purged or reset, and a server that was restored to an older state and has gone on since."""
    server = own_server(MARIADB, _SETTINGS)
    copies = _copies(server, interpreting, tmp_path)
    _change(copies, 101)
    server.purge_log()
    _mend(copies, f"{_LOST}.LOG_REMOVED")

    _change(copies, 102)
    server.query("RESET MASTER")
    _mend(copies, f"{_LOST}.LOG_RESET")

    server.stop()
    shutil.copytree(server.folder / "data", tmp_path / "image")
    server.start()
    _change(copies, 103)
    assert copies.update() == {}
    server.kill()
    shutil.rmtree(server.folder / "data")
    shutil.move(tmp_path / "image", server.folder / "data")
    server.start()
    for number in range(104, 108):
        _change(copies, number)
    _mend(copies, f"{_LOST}.LOG_REPLACED")
