"""Copies of many tables of one schema: what is altered or unreadable is named, and the others follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.mysql_copies import SCHEMA, USER, Copies
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNREADABLE, _CHANGED = "INGESTION_CHANGE_UNREADABLE", "INGESTION_COLUMNS_CHANGED"
_REPRESENTABLE = "DATABASE_VALUE_NOT_REPRESENTABLE"
_TABLE = "CREATE TABLE {table} (id INT PRIMARY KEY, v INT, w INT, x VARCHAR(20), d DATETIME(6))"
_ROWS = "INSERT INTO {table} VALUES (1, 10, 20, 'abé', '2024-01-01 10:00:00.123456'), (2, NULL, 21, 'xyz', NULL)"
# Each leaves the definition as it was, and other values in rows that have no entry in the log.
_UNDONE = {
    "made_again": ("DROP COLUMN v", "ADD COLUMN v INT"),
    "exchanged": ("RENAME COLUMN v TO w, RENAME COLUMN w TO v",),
    "shortened": ("MODIFY d DATETIME", "MODIFY d DATETIME(6)"),
    "filled": ("MODIFY v INT NOT NULL", "MODIFY v INT"),
}
_FOLLOWING = ("plain", "indexed", "emptied")
_POISONED = "zero_dates"


@pytest.fixture
def copies(mariadb: MysqlServer, interpreting: SparkSession, tmp_path: Path) -> Iterator[Copies]:
    """Eight tables of a schema, one of them with a zero date, and one with the name of a pattern that is left out."""
    found = Copies(server=mariadb, spark=interpreting, folder=tmp_path)
    tables = (*_UNDONE, *_FOLLOWING, _POISONED, "tmp_left_out")
    try:
        found.create(*(text.format(table=table) for table in tables for text in (_TABLE, _ROWS)))
        found.run("SET SESSION sql_mode = ''", f"UPDATE {_POISONED} SET d = '0000-00-00' WHERE id = 2")
        yield found
    finally:
        mariadb.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
        mariadb.query(f"DROP USER IF EXISTS {USER}@'%'")


def test_one_poisoned_table_and_altered_ones_fail_alone(copies: Copies) -> None:
    """Alterations that undo each other are seen; what the errors print makes each copy equal to its table."""
    failed = copies.update()
    assert {flow: error.condition for flow, error in failed.items()} == {f"{_POISONED}_snapshot_flow": _REPRESENTABLE}
    assert copies.differing(*_UNDONE, *_FOLLOWING) == {}

    # What a person does who reads the error: correct the value.
    copies.run(f"UPDATE {_POISONED} SET d = NULL WHERE id = 2")
    for table, parts in _UNDONE.items():
        copies.run("SET SESSION sql_mode = ''", *(f"ALTER TABLE {table} {part}" for part in parts))
    copies.run("ALTER TABLE indexed ADD INDEX (w), ALTER v SET DEFAULT 5", "INSERT INTO indexed (id) VALUES (3)")
    copies.run("TRUNCATE emptied", "INSERT INTO plain VALUES (3, 1, 2, 'new', NULL)")
    failed = copies.update()
    assert {flow: error.condition for flow, error in failed.items()} == dict.fromkeys(
        (f"{table}_cdc_flow" for table in _UNDONE), _UNREADABLE
    )
    text = failed["exchanged_cdc_flow"].render()
    assert "ALTER TABLE exchanged RENAME COLUMN v TO w" in text
    assert text.endswith("passes this change over.")
    assert copies.differing(*_FOLLOWING, _POISONED) == {}
    assert sorted(copies.differing(*_UNDONE)) == sorted(_UNDONE)

    assert copies.settle() <= {_UNREADABLE, _CHANGED}
    assert sorted(copies.followed) == [f"sluice ingest resync {SCHEMA}.{table}" for table in sorted(_UNDONE)]
    assert copies.differing(*_UNDONE, *_FOLLOWING, _POISONED) == {}
