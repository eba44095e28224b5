"""The commands of `sluice ingest`, and `sluice reconcile`, on MariaDB: each does what docs/databases.md says.

Changes that the log does not have are made with `sql_log_bin = 0`: only another snapshot brings them to a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.recovery.comparison import Comparison
from tests.databases.mysql.test_mysql_dialect import Mysql
from tests.support.copied_tables import copy_rows
from tests.support.mysql_copies import SCHEMA, USER, Copies
from tests.support.mysql_load import TABLES, Workload, loaded
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HISTORY = {
    "table": {
        "source_schema": SCHEMA,
        "source_table": "tmp_history",
        "destination_schema": "copies",
        "destination_table": "history",
        "table_configuration": {"scd_type": "SCD_TYPE_2"},
    }
}
_CREATE = (
    "CREATE TABLE big (id INT PRIMARY KEY, name VARCHAR(50))",
    "INSERT INTO big SELECT seq, 'old' FROM seq_1_to_3000",
    "CREATE TABLE parts (id INT, name VARCHAR(9), n DECIMAL(10,2), PRIMARY KEY (id, name))",
    "INSERT INTO parts SELECT seq, CONCAT('n', seq), seq FROM seq_1_to_300",
    "CREATE TABLE loaded (id INT PRIMARY KEY, n INT)",
    "INSERT INTO loaded SELECT seq, seq FROM seq_1_to_5",
    "CREATE TABLE tmp_history (id INT PRIMARY KEY, n INT)",
    "INSERT INTO tmp_history SELECT seq, seq FROM seq_1_to_30",
)
_TYPES = ", ".join(f"c{place} {each.type}" for place, each in enumerate(Mysql.types))
_VALUES = [", ".join(each.literals[row % len(each.literals)] for each in Mysql.types) for row in range(3)]
_KINDS = (
    f"CREATE TABLE kinds (id INT PRIMARY KEY, {_TYPES})",
    *(f"INSERT INTO kinds VALUES ({row}, {values})" for row, values in enumerate(_VALUES)),
    f"INSERT INTO kinds VALUES (3{', NULL' * len(Mysql.types)})",
)
_UNSEEN = "SET SESSION sql_log_bin = 0"


@pytest.fixture
def copies(mariadb: MysqlServer, interpreting: SparkSession, tmp_path: Path) -> Iterator[Copies]:
    """A table of several chunks, one with a composite key, one whose rows are loaded already, and a history."""
    options = {"chunkBytes": "1k", "maxChunksPerTrigger": "1"}
    found = Copies(server=mariadb, spark=interpreting, folder=tmp_path, more=[_HISTORY], options=options)
    try:
        found.create(*_CREATE)
        yield found
    finally:
        mariadb.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
        mariadb.query(f"DROP USER IF EXISTS {USER}@'%'")


def _states(copies: Copies) -> dict[str, str]:
    return {each["table"].removeprefix(f"{SCHEMA}."): each["state"] for each in copies.status()["tables"]}


def _is_present(copies: Copies) -> bool:
    """Whether the open rows of the history are those of its table."""
    rows = copy_rows(copies.pipeline(), "history")
    found = sorted((row.id, row.n) for row in rows if row["__END_AT"] is None)
    return found == [(row["id"], row["n"]) for row in copies.rows("SELECT id, n FROM tmp_history ORDER BY id")]


def _reconciled(copies: Copies, table: str) -> Comparison:
    return copies.pipeline().reconcile(f"copies.{table}", f"mariadb:bank/{SCHEMA}.{table}", limit=100)


def _differences(found: Comparison) -> list[tuple[Any, ...]]:
    return [(*each.key, each.kind.name, *each.columns) for each in found.differences]


def test_tables_that_differ_are_found_and_read_again_while_changes_flow(copies: Copies) -> None:
    """`reconcile` names each key, and whether the difference may be on its way; `resync` mends what it is asked for."""
    copies.run(*TABLES, *_KINDS)
    assert copies.update() == {}
    assert _reconciled(copies, "kinds").is_equal
    equal = _reconciled(copies, "parts")
    assert (equal.is_equal, equal.keys, equal.first.rows, equal.second.rows) == (True, ("id", "name"), 300, 300)
    copies.run(
        _UNSEEN,
        "DELETE FROM parts WHERE id IN (20, 220)",
        "UPDATE parts SET n = -1 WHERE id IN (21, 221)",
        "INSERT INTO parts VALUES (22, 'unseen', 1)",
        "UPDATE big SET id = id + 10000 WHERE id < 10",
        "DELETE FROM tmp_history WHERE id = 3",
        "UPDATE tmp_history SET n = 0 WHERE id = 4",
    )
    copies.run("UPDATE parts SET n = 0 WHERE id = 50", "UPDATE kinds SET id = -id WHERE id > 0")
    assert copies.update() == {}
    kinds = _reconciled(copies, "kinds")
    assert (kinds.is_equal, kinds.first.rows, len(kinds.columns)) == (True, 4, len(Mysql.types))
    certain = _reconciled(copies, "parts")
    stale = [(220, "n220", "ONLY_FIRST"), (221, "n221", "DIFFERENT", "n")]
    assert _differences(certain) == [
        (20, "n20", "ONLY_FIRST"), (21, "n21", "DIFFERENT", "n"), (22, "unseen", "ONLY_SECOND"), *stale
    ]  # fmt: skip
    assert certain.uncertain is None
    copies.run("UPDATE parts SET n = 1 WHERE id = 50")
    assert "the log has 1 changes of the table" in str(_reconciled(copies, "parts").uncertain)

    copies.sluice(f"sluice ingest resync {SCHEMA}.parts --where 'id <= 100'")
    copies.sluice(f"sluice ingest resync {SCHEMA}.big")
    copies.sluice("sluice ingest resync history")
    assert [_states(copies)[table] for table in ("parts", "big", "tmp_history", "loaded")] == [
        "RESYNC", "RESYNC", "RESYNC", "FOLLOWING"
    ]  # fmt: skip
    with loaded(*(Workload(copies.server, seed, pause=0.02) for seed in (1, 2))):
        assert copies.update() == {}
    assert copies.update() == {}
    assert copies.differing("big", "a", "b", "c") == {}
    assert _is_present(copies)
    # The keys of all rows were looked up, so that a row that is gone at the source went with those of the condition.
    assert _differences(_reconciled(copies, "parts")) == stale[1:]
