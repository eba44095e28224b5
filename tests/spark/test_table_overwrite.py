"""A full refresh replaces the rows and the columns of a table, and keeps the rest of its definition."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.engine.delta import table_overwrite, table_version
from framework.engine.delta.table_overwrite import overwrite_table
from framework.engine.delta.table_version import TableVersion
from framework.engine.delta.transaction_identifiers import Batch
from framework.foundation.table_address import TableAddress
from framework.run.update.results import UpdateState
from tests.support.delta_commits import checksum_of, commit_of
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "id INT, amount INT, name STRING"
FIRST = Batch(application_id="refresh", number=1)


def table(spark: SparkSession, path: Path, definition: str, *values: str) -> TableAddress:
    """A table with a definition and rows, as in SQL."""
    columns, _, rest = definition.partition("|")
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {rest}")
    for row in values:
        spark.sql(f"INSERT INTO delta.`{path}` VALUES {row}")
    return TableAddress(path=str(path))


def columns(spark: SparkSession, address: TableAddress) -> list[tuple[str, str, bool, dict[str, Any]]]:
    """The columns of a table: name, type, whether they are nullable, and metadata except that of a column mapping."""
    stored = json.loads(TableVersion(spark, address).snapshot.metadata().schemaString())
    return [
        (field["name"], field["type"], field["nullable"],
         {key: value for key, value in field["metadata"].items() if not key.startswith("delta.columnMapping.")})
        for field in stored["fields"]
    ]  # fmt: skip


def detail(spark: SparkSession, address: TableAddress, *names: str) -> dict[str, Any]:
    """Some of a table's details."""
    found = spark.sql(f"DESCRIBE DETAIL {address.sql}").collect()[0].asDict()
    return {name: found[name] for name in names}


def rows(spark: SparkSession, address: TableAddress) -> list[tuple[Any, ...]]:
    """The rows of a table, sorted."""
    return sorted(map(tuple, table_rows(spark, str(address.path))), key=repr)


def shop(world: EngineWorld, *, more: bool = False) -> Callable[[], None]:
    """Declares a table with a schema and one without, which gets a column of another kind."""

    def declare() -> None:
        def payments() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.table(schema="id INT NOT NULL COMMENT 'the id', amount INT, name STRING", cluster_by=["id"])
        def declared() -> DataFrame:
            return payments()

        @dp.table
        def inferred() -> DataFrame:
            return payments().withColumn("at", F.lit("2026-01-01").cast("timestamp_ntz")) if more else payments()

    return declare


def test_a_full_refresh_keeps_the_definition_of_its_table(spark: SparkSession, tmp_path: Path) -> None:
    """What the declaration says of columns holds for the next rows, too, and what users have set is still there."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, 10, "a")], ROW)
    assert world.run(shop(world)).state is UpdateState.COMPLETED
    declared, inferred = TableAddress(path=world.path("declared")), TableAddress(path=world.path("inferred"))
    for statement in (
        f"ALTER TABLE {declared.sql} ADD CONSTRAINT positive CHECK (amount > 0)",
        f"ALTER TABLE {declared.sql} SET TBLPROPERTIES ('team' = 'sales')",
        f"ALTER TABLE {inferred.sql} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        f"ALTER TABLE {inferred.sql} ALTER COLUMN amount SET DEFAULT 7",
        f"ALTER TABLE {inferred.sql} ALTER COLUMN name COMMENT 'of the customer'",
        f"ALTER TABLE {inferred.sql} CLUSTER BY (id)",
    ):
        spark.sql(statement)
    refreshed = world.run(shop(world, more=True), full_refresh=["declared", "inferred"])
    assert refreshed.state is UpdateState.COMPLETED, [flow.error for flow in refreshed.flows]
    assert columns(spark, declared) == [
        ("id", "integer", False, {"comment": "the id"}), ("amount", "integer", True, {}), ("name", "string", True, {}),
    ]  # fmt: skip
    assert detail(spark, declared, "clusteringColumns", "properties") == {
        "clusteringColumns": ["id"],
        "properties": {"sluice.pipeline": world.name, "team": "sales", "delta.constraints.positive": "amount > 0"},
    }
    assert columns(spark, inferred) == [
        ("id", "integer", True, {}), ("amount", "integer", True, {"CURRENT_DEFAULT": "7"}),
        ("name", "string", True, {"comment": "of the customer"}), ("at", "timestamp_ntz", True, {}),
    ]  # fmt: skip
    assert detail(spark, inferred, "clusteringColumns") == {"clusteringColumns": ["id"]}
    world.feed([(None, 20, "b")], ROW)
    result = world.run(shop(world, more=True), refresh=["declared"])
    assert ["NOT NULL constraint violated for column: id" in str(flow.error) for flow in result.flows] == [True]
    assert world.rows("declared") == [(1, 10, "a")]


def test_columns_are_those_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    """Columns are added, removed and changed; what a column of another type had is gone; a column mapping stays."""
    source = table(
        spark, tmp_path / "source",
        "b STRING COMMENT 'new', a INT NOT NULL, s STRUCT<x: INT, z: STRING>, id STRING"
        "| TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "('b', 1, struct(2, 'z'), 'i')",
    )  # fmt: skip
    target = table(
        spark, tmp_path / "target",
        "id INT COMMENT 'a number', a INT COMMENT 'kept', b STRING COMMENT 'old', gone INT, "
        "s STRUCT<x: INT COMMENT 'in', y: INT>| CLUSTER BY (s.x, a) TBLPROPERTIES ('delta.columnMapping.mode'='name')",
        "(1, 1, 'b', 1, struct(1, 1))",
    )  # fmt: skip
    overwrite_table(spark, source, target, FIRST)
    struct: Any = columns(spark, target)[2][1]
    assert [(field["name"], field["metadata"].get("comment")) for field in struct["fields"]] == [
        ("x", "in"),
        ("z", None),
    ]
    assert [(name, nullable, kept) for name, _, nullable, kept in columns(spark, target)] == [
        ("b", True, {"comment": "new"}), ("a", False, {"comment": "kept"}), ("s", True, {}), ("id", True, {}),
    ]  # fmt: skip
    assert detail(spark, target, "clusteringColumns") == {"clusteringColumns": ["s.x", "a"]}
    assert rows(spark, target) == rows(spark, source)


def test_partitions_are_those_of_the_source_and_clustering_by_a_lost_column_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Other partition columns, none any more, and a clustering column that is gone."""
    by_day = table(spark, tmp_path / "day", "id INT, day INT| PARTITIONED BY (day)", "(1, 1)")
    by_id = table(spark, tmp_path / "id", "id INT, day INT| PARTITIONED BY (id)", "(2, 2), (3, 2)")
    plain = table(spark, tmp_path / "plain", "day INT", "(4)")
    clustered = table(spark, tmp_path / "clustered", "id INT, day INT| CLUSTER BY (day, id)", "(5, 5)")
    overwrite_table(spark, by_id, by_day, FIRST)
    assert detail(spark, by_day, "partitionColumns") == {"partitionColumns": ["id"]}
    assert rows(spark, by_day) == [(2, 2), (3, 2)]
    for target in (by_id, clustered):
        overwrite_table(spark, plain, target, FIRST)
        assert detail(spark, target, "partitionColumns", "clusteringColumns") == {
            "partitionColumns": [], "clusteringColumns": [],
        }  # fmt: skip
        assert rows(spark, target) == [(4,)]


def test_all_partitions_are_replaced_and_a_table_with_partitions_is_not_clustered(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Whatever the session says of partitions; Delta can't compact a table that has both."""
    interpreting.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    source = table(interpreting, tmp_path / "source", f"{ROW} | PARTITIONED BY (name)", "(1, 2, 'a')")
    kept = table(interpreting, tmp_path / "kept", f"{ROW} | PARTITIONED BY (name)", "(9, 9, 'z')")
    clustered = table(interpreting, tmp_path / "clustered", f"{ROW} | CLUSTER BY (id)", "(9, 9, 'z')")
    for target in (kept, clustered):
        overwrite_table(interpreting, source, target, FIRST)
        assert rows(interpreting, target) == [(1, 2, "a")]
        interpreting.sql(f"OPTIMIZE {target.sql}")
        assert detail(interpreting, target, "partitionColumns", "clusteringColumns") == {
            "partitionColumns": ["name"], "clusteringColumns": [],
        }  # fmt: skip


def test_the_commit_is_that_of_deltas_command(spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """Other columns, a NOT NULL constraint, other partitions, and a file of which rows were deleted."""
    source = table(spark, tmp_path / "source", f"{ROW}, day INT NOT NULL| PARTITIONED BY (day)", "(1, 2, 'a', 3)")
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    ours = table(spark, tmp_path / "ours", f"id BIGINT COMMENT 'kept', day INT| {vectors}", "(1, 1), (2, 2)", "(3, 3)")
    spark.sql(f"DELETE FROM {ours.sql} WHERE id = 2")
    expected = TableAddress(path=shutil.copytree(str(ours.path), tmp_path / "expected").as_posix())
    overwrite_table(spark, source, ours, FIRST)
    swap.setattr(table_overwrite, "is_plain", lambda _: False)
    overwrite_table(spark, source, expected, FIRST)
    assert commit_of(expected, 4) == commit_of(ours, 4)
    assert checksum_of(expected, 4) == checksum_of(ours, 4)
    assert rows(spark, ours) == rows(spark, expected) == [(1, 2, "a", 3)]


def test_a_target_that_does_not_exist_is_created(spark: SparkSession, tmp_path: Path) -> None:
    """As an auxiliary table of AUTO CDC, which is created by the first event that needs it."""
    source = table(spark, tmp_path / "source", "id INT, at TIMESTAMP_NTZ | PARTITIONED BY (id)", "(1, NULL)")
    target = TableAddress(path=str(tmp_path / "target"))
    for _ in range(2):
        overwrite_table(spark, source, target, FIRST)
    assert rows(spark, target) == [(1, None)]
    assert detail(spark, target, "partitionColumns", "numFiles") == {"partitionColumns": ["id"], "numFiles": 1}


def test_a_repeated_overwrite_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that came after the first one stay; a later one of the same application replaces them."""
    source = table(spark, tmp_path / "source", "id INT", "(1)")
    target = table(spark, tmp_path / "target", "id INT", "(2)")
    overwrite_table(spark, source, target, FIRST)
    spark.sql(f"INSERT INTO {target.sql} VALUES (3)")
    overwrite_table(spark, source, target, FIRST)
    assert rows(spark, target) == [(1,), (3,)]
    overwrite_table(spark, source, target, Batch(application_id="refresh", number=2))
    assert rows(spark, target) == [(1,)]


def test_an_untested_version_of_delta_overwrites_rows_and_partitions(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """Delta's own command does it: columns become nullable."""
    source = table(spark, tmp_path / "source", "id INT NOT NULL, day INT| PARTITIONED BY (day)", "(1, 1)")
    target = table(spark, tmp_path / "target", "id INT NOT NULL", "(2)")
    swap.setattr(table_version, "_TESTED", frozenset())
    overwrite_table(spark, source, target, FIRST)
    overwrite_table(spark, source, target, FIRST)
    assert columns(spark, target) == [("id", "integer", True, {}), ("day", "integer", True, {})]
    assert detail(spark, target, "partitionColumns") == {"partitionColumns": ["day"]}
    assert rows(spark, target) == [(1, 1)]
    assert len(list((tmp_path / "target" / "_delta_log").glob("*.json"))) == 3
