"""The faults of the designs (RECOVERY.md, GATEWAY.md) that MariaDB can have: broken, named, mended as printed.

| fault | where it is shown |
| --- | --- |
| login refused, right missing | `test_rights…` |
| the table has no key, or another one; columns added, dropped, renamed, retyped, in a snapshot, too | `test_tables…` |
| a row that can't be represented, a table made again, rows without their images, names or events | `test_tables…` |
| truncated tables, histories and partitions; a table that is altered twice between two updates | `test_tables…` |
| keys that move, large transactions, the clock set back: nothing is to be done | `test_tables…` |
| the log removed, reset, restored; another server; the server can't be reached | `test_mysql_gaps.py` |
| keys that move, and deletes, between chunks that were read and those that were not | `test_mysql_commands.py` |
| kills at any moment, restarts of the server, connections that are lost | `tests/crashes/test_mysql.py` |
| a full disk: the same code for each database | `tests/spark/test_full_disk.py`, `test_postgres_spool.py` |

MariaDB has no slot, no unchanged TOAST and no replica identity: what its rows lack is `binlog_row_image`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework.foundation.failpoints import arm, disarm
from tests.support.copied_tables import copy_rows
from tests.support.mysql_copies import SCHEMA, USER, Copies
from tests.support.mysql_programs import MARIADB
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.errors import SluiceError

Start = Callable[..., MysqlServer]
_UNREADABLE, _CHANGED = "INGESTION_CHANGE_UNREADABLE", "INGESTION_COLUMNS_CHANGED"
_CASCADES = "MYSQL_CASCADES"
_COLUMNS = "(id INT PRIMARY KEY, v INT, w INT NOT NULL, d DATE)"
_BROKEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "rekeyed": (_CHANGED, ("ALTER TABLE rekeyed DROP PRIMARY KEY, ADD PRIMARY KEY (w)",)),
    "retyped": (_UNREADABLE, ("ALTER TABLE retyped MODIFY v BIGINT", "UPDATE retyped SET v = 1 << 40 WHERE id = 1")),
    "replaced": (
        "INGESTION_TABLE_REPLACED",
        ("DROP TABLE replaced", f"CREATE TABLE replaced {_COLUMNS}", "INSERT INTO replaced VALUES (1, 0, 0, NULL)"),
    ),
    "in_place": (
        "INGESTION_TABLE_REPLACED",
        (f"/* of the application */ CREATE OR REPLACE TABLE in_place {_COLUMNS}",),
    ),
    "parted": (_UNREADABLE, ("ALTER TABLE parted TRUNCATE PARTITION low",)),
    "by_statement": (_UNREADABLE, ("SET SESSION binlog_format = STATEMENT", "UPDATE by_statement SET v = 0")),
    "by_part": (_UNREADABLE, ("SET SESSION binlog_row_image = MINIMAL", "UPDATE by_part SET v = 0")),
    "child": (
        _CASCADES,
        (
            "ALTER TABLE child ADD CONSTRAINT again FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE",
            "DELETE FROM parent WHERE id = 1",
        ),
    ),
    "zeroed": (_UNREADABLE, ("SET SESSION sql_mode = ''", "UPDATE zeroed SET d = '0000-00-00' WHERE id = 1")),
    # At the end: later changes of other tables would be without names, too.
    "unnamed": (_UNREADABLE, ("SET GLOBAL binlog_row_metadata = MINIMAL", "UPDATE unnamed SET v = 0")),
}
"""What happens to each table, and the condition of its changes."""
_FOLLOWED = {
    "grown": ("ALTER TABLE grown ADD COLUMN x INT", "UPDATE grown SET x = id WHERE id > 1"),
    "grown_twice": (
        "ALTER TABLE grown_twice ADD COLUMN x INT",
        "INSERT INTO grown_twice VALUES (9, 9, 9, NULL, 9)",
        "ALTER TABLE grown_twice ADD COLUMN y VARCHAR(9)",
        "UPDATE grown_twice SET y = 'y' WHERE id > 2",
    ),
    "moved": (
        "UPDATE moved SET id = -id",
        "DELETE FROM moved WHERE id = -2",
        "INSERT INTO moved VALUES (2, 2, 2, NULL)",
    ),
    "large": ("INSERT INTO large SELECT seq, seq, seq, NULL FROM seq_10_to_3000", "DELETE FROM large WHERE id % 3 = 0"),
    "long_ago": (
        "SET SESSION timestamp = 1000000000",
        "UPDATE long_ago SET v = 0",
        "DELETE FROM long_ago WHERE id = 1",
    ),
    "emptied": ("TRUNCATE emptied", "INSERT INTO emptied VALUES (7, 7, 7, NULL)"),
}
"""What happens to each table that needs nobody."""
_TABLES = (*_BROKEN, *_FOLLOWED, "keyless", "wide", "parent")
_OBJECTS = (
    {"table": {"source_schema": "hidden", "source_table": "secrets", "destination_schema": "copies"}},
    {
        "table": {
            "source_schema": SCHEMA,
            "source_table": "tmp_history",
            "destination_schema": "copies",
            "destination_table": "history",
            "table_configuration": {"scd_type": "SCD_TYPE_2"},
        }
    },
)


def _copies(server: MysqlServer, spark: SparkSession, folder: Path) -> Copies:
    options = {"chunkBytes": "1k", "maxChunksPerTrigger": "1", "maxRowsPerTrigger": "1000"}
    copies = Copies(server=server, spark=spark, folder=folder, more=_OBJECTS, options=options, is_plain=True)
    server.query("CREATE DATABASE hidden")
    server.query("CREATE TABLE hidden.secrets (id INT PRIMARY KEY)")
    server.query("INSERT INTO hidden.secrets VALUES (1), (2)")
    tables = [each for each in (*_BROKEN, *_FOLLOWED) if each not in ("parted", "child")]
    copies.create(
        *(f"CREATE TABLE {table} {_COLUMNS}" for table in tables),
        f"CREATE TABLE parted {_COLUMNS} PARTITION BY RANGE (id) "
        "(PARTITION low VALUES LESS THAN (3), PARTITION high VALUES LESS THAN MAXVALUE)",
        *(f"INSERT INTO {table} SELECT seq, seq, seq, '2024-01-01' FROM seq_1_to_4" for table in (*tables, "parted")),
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT REFERENCES parent (id) ON DELETE CASCADE)",
        "INSERT INTO parent VALUES (1), (2)",
        "INSERT INTO child VALUES (10, 1), (20, 2)",
        "CREATE TABLE keyless (id INT, v INT)",
        "INSERT INTO keyless VALUES (1, 1), (1, 1)",
        "CREATE TABLE tmp_history (id INT PRIMARY KEY, n INT)",
        "INSERT INTO tmp_history VALUES (1, 1), (2, 2)",
        "CREATE TABLE wide (id INT PRIMARY KEY, lost INT, renamed INT, retyped INT)",
        "INSERT INTO wide SELECT seq, seq, seq, seq FROM seq_1_to_3000",
    )
    return copies


def _table(flow: str) -> str:
    return flow.removesuffix("_cdc_flow").removesuffix("_snapshot_flow").replace("history", "tmp_history")


def _conditions(failed: dict[str, SluiceError]) -> dict[str, str]:
    return {_table(flow): error.condition for flow, error in failed.items()}


def _found_by_doctor(copies: Copies) -> dict[str, str]:
    findings = copies.pipeline().doctor.examine().findings
    assert [finding for finding in findings if not finding.ways] == []
    return {_table(finding.flow.table): finding.condition for finding in findings if finding.flow is not None}


def _found_by_status(copies: Copies) -> dict[str, str]:
    tables = copies.status()["tables"]
    return {each["table"].partition(".")[2]: each["error"] for each in tables if each["error"]}


def _stop_within_a_snapshot(copies: Copies, table: str) -> None:
    """Commit the first chunk of a table, and end the flow in the second one."""

    def die() -> None:
        raise SystemError

    arm("staging.after_files", nth=2, action=die)
    try:
        copies.pipeline().run(refresh=[f"copies.{table}"])
    finally:
        disarm()


def test_tables_that_break_are_named_and_mended_as_printed(
    own_server: Start, interpreting: SparkSession, tmp_path: Path
) -> None:
    """Each table fails alone; the update, the status and the doctor agree; nothing but what they print is done."""
    copies = _copies(own_server(MARIADB), interpreting, tmp_path)
    assert _conditions(copies.update("shop_changes")) == {}
    _stop_within_a_snapshot(copies, "wide")
    copies.run("ALTER TABLE wide DROP COLUMN lost, ADD COLUMN added INT DEFAULT 7")
    copies.run("ALTER TABLE wide RENAME COLUMN renamed TO other, MODIFY retyped VARCHAR(20)")
    copies.run("UPDATE wide SET retyped = 'é' WHERE id % 2 = 0")
    refused = {"keyless": "INGESTION_WITHOUT_KEY", "secrets": "DATABASE_PERMISSION", "child": _CASCADES}
    found = _conditions(copies.update())
    assert found.pop("wide") in ("SNAPSHOT_PLAN_INVALID", _CHANGED)
    assert found == refused
    found = _found_by_doctor(copies)
    del found["wide"]
    assert found == refused
    copies.settle()
    assert copies.differing(*_TABLES) == {}
    assert [row.id for row in copy_rows(copies.pipeline(), "secrets")] == [1, 2]

    copies.run("TRUNCATE tmp_history", "INSERT INTO tmp_history VALUES (3, 3)")
    for statements in (*_FOLLOWED.values(), *(statements for _, statements in _BROKEN.values())):
        copies.run(*statements)
    expected = {table: condition for table, (condition, _) in _BROKEN.items()}
    expected["tmp_history"] = "INGESTION_HISTORY_TRUNCATED"
    failed = copies.update()
    assert (_conditions(failed), _found_by_doctor(copies), _found_by_status(copies)) == (expected,) * 3
    assert copies.differing(*_FOLLOWED, "keyless", "wide") == {}

    # What a person does who reads the errors: correct the value, and ask the preflight.
    assert "sluice ingest preflight" in failed["unnamed_cdc_flow"].what
    (checked,) = json.loads(copies.sluice("sluice ingest preflight -o json", exit_code=1))
    settings = [each["statement"] for each in checked["findings"] if each["condition"] == "MYSQL_LOG_SETTING"]
    assert settings == ["SET GLOBAL binlog_row_metadata = 'FULL'"]
    copies.run(*settings, "UPDATE zeroed SET d = NULL WHERE id = 1", "UPDATE unnamed SET v = 5 WHERE id = 1")
    copies.followed.clear()
    copies.settle()
    assert sorted(copies.followed) == [
        f"ALTER TABLE `{SCHEMA}`.`child` DROP FOREIGN KEY `again`",
        *(f"sluice ingest resync {SCHEMA}.{table}" for table in sorted(expected)),
    ]
    assert copies.differing(*_TABLES) == {}
    history = [row for row in copy_rows(copies.pipeline(), "history") if row["__END_AT"] is None]
    assert [(row.id, row.n) for row in history] == [(3, 3)]


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
    assert {*_conditions(failed).values()} == {"DATABASE_LOGIN_REFUSED"}
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
