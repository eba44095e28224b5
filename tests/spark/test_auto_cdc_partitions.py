"""Keys that are partition columns: Delta stores a partition value as text, and a key must not change by that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cdc.analysis.target_schema import plan_target
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError, UserError
from tests.support.cdc_world import World, flow, name

DDL = "region string, id int, v string, op string, seq int"
CHANGES = AutoCdcSpec(
    keys=("region", "id"),
    sequence_by="seq",
    apply_as_deletes="op = 'delete'",
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
FLOWS = {
    "changes": (CHANGES, DDL, False),
    "snapshot": (AutoCdcSpec(keys=CHANGES.keys, sequence_by="0"), "region string, id int, v string", True),
}
ODD = ["a/b%25=:c", " both ends ", "é\u0001\n", "null", "\u65e5\u672c", ".", "..", "A", "a"]


@pytest.mark.parametrize("scd_type", [1, 2])
def test_a_key_that_is_a_partition_column_finds_its_row(
    interpreting: SparkSession, tmp_path: Path, scd_type: int
) -> None:
    """Unusual characters are stored unchanged; a batch with a key that would change is rejected with counts."""
    flows = {called: (replace(spec, scd_type=scd_type), ddl, once) for called, (spec, ddl, once) in FLOWS.items()}
    world = World(interpreting, tmp_path, flows, partitions=["region"])
    world.apply("snapshot", [(region, 1, "old") for region in ODD])
    world.apply("changes", [*((region, 1, "new", "upsert", 1) for region in ODD), (ODD[0], 1, None, "delete", 2)])
    before = world.version()
    empty = "SELECT '' AS region, 1 AS id, 'v' AS v"
    bad = interpreting.sql(f"{empty} UNION ALL SELECT CAST(X'E9' AS STRING), 1, 'v'")
    named = interpreting.sql("SELECT '__HIVE_DEFAULT_PARTITION__' AS region, 1 AS id, 'v' AS v")
    for called, batch in (("changes", bad), ("snapshot", bad.unionByName(named))):
        events = batch.selectExpr("*", "'upsert' AS op", "5 AS seq") if called == "changes" else batch
        with pytest.raises(OperationError) as raised:
            world.writer(called).apply(events, 7)
        count = 2 if called == "changes" else 3
        assert "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY" == raised.value.condition
        assert (count, f"region: {count}") == (raised.value.fields["null_count"], raised.value.fields["counts"])
    shown = [(region, 1, "new") for region in ODD[1:]]
    if scd_type == 2:
        shown = [(region, 1, "old") for region in ODD] + [(ODD[0], 1, "new"), *shown]
    assert sorted(shown, key=repr) == world.rows("region", "id", "v")
    assert before == world.version()


def test_a_first_load_with_a_key_that_a_partition_cannot_store_writes_nothing(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """An empty string is not NULL: the error reports it as an empty string."""
    world = World(interpreting, tmp_path, FLOWS, partitions=["region"])
    with pytest.raises(OperationError) as raised:
        world.apply("snapshot", [("", 1, "v"), ("a", 1, "v")])
    assert "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY" == raised.value.condition
    assert ([], 0) == (world.rows(), world.version())


def test_a_partition_column_that_is_no_key_has_the_value_that_delta_stores(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """An empty string is NULL, and 01:30 in winter time that in summer time: neither starts a new row, in any batch."""
    interpreting.conf.set("spark.sql.session.timeZone", "America/New_York")
    shown = ColumnSelection(columns=("id", "region", "at"))
    spec = AutoCdcSpec(keys=("id",), sequence_by="seq", scd_type=2, columns=shown)
    flows = {"changes": (spec, "region STRING, id INT, at TIMESTAMP, seq INT", False)}
    world = World(interpreting, tmp_path, flows, partitions=["region", "at"])
    time = "TIMESTAMP'2024-11-03 06:30:00Z'"
    for batch in (
        f"('', 1, NULL, 1), ('x', 2, {time}, 1)",
        f"('', 1, NULL, 2), ('a', 1, NULL, 4), ('x', 2, {time}, 2)",
        "(NULL, 1, NULL, 3)",
    ):
        rows = interpreting.sql(f"SELECT * FROM VALUES {batch} AS t(region, id, at, seq)")
        world.apply_frame("changes", rows.withColumn("at", rows.at.cast("timestamp")))
    assert [(1, "a", 4, None), (1, None, 1, 4), (2, "x", 1, None)] == world.rows(
        "id", "region", "__START_AT", "__END_AT"
    )


def test_an_empty_text_in_a_partition_column_is_a_null_to_ignore(interpreting: SparkSession, tmp_path: Path) -> None:
    """An empty string is stored as NULL, and with `ignore_null_updates` a NULL keeps the previous value."""
    spec = replace(CHANGES, keys=("id",), ignore_null_updates=ColumnSelection())
    world = World(interpreting, tmp_path, {"changes": (spec, DDL, False)}, partitions=["region"])
    world.apply("changes", [("a", 1, "v", "upsert", 1), ("", 2, "v", "upsert", 1)])
    world.apply("changes", [("", 1, "w", "upsert", 2), ("b", 2, "w", "upsert", 0)])
    assert [("a", 1, "w"), ("b", 2, "v")] == world.rows("region", "id", "v")


def test_a_key_of_bytes_is_no_partition_column(interpreting: SparkSession) -> None:
    """Delta would change most of its values, which is known before anything runs."""
    source = flow(replace(CHANGES, keys=("code",)), interpreting.createDataFrame([], f"code binary, {DDL}"))
    with pytest.raises(UserError) as raised:
        plan_target(name("target"), [source], partition_columns=["Code"])
    assert ("AUTOCDC_PARTITION_KEY_TYPE", "code") == (raised.value.condition, raised.value.fields["key"])
    assert () == plan_target(name("target"), [source], partition_columns=["op"]).text_partitions


def test_a_time_that_a_partition_stores_as_another_is_no_key(interpreting: SparkSession, tmp_path: Path) -> None:
    """The path of a partition has no offset, so 01:30 in winter time is stored as 01:30 in summer time."""
    interpreting.conf.set("spark.sql.session.timeZone", "America/New_York")
    spec = AutoCdcSpec(keys=("at",), sequence_by="seq")
    world = World(interpreting, tmp_path, {"changes": (spec, "at TIMESTAMP, seq INT", False)}, partitions=["at"])
    summer, winter = (
        interpreting.sql(f"SELECT TIMESTAMP'2024-11-03 0{hour}:30:00Z' AS at, 1 AS seq") for hour in (5, 6)
    )
    world.apply_frame("changes", summer)
    with pytest.raises(OperationError) as raised:
        world.apply_frame("changes", summer.union(winter))
    assert "AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY" == raised.value.condition
    assert (1, "at: 1") == (raised.value.fields["null_count"], raised.value.fields["counts"])
    assert [(1,)] == world.rows("seq")
