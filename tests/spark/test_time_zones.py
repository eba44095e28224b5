"""What a session's time zone changes, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from tests.spark.test_updates import jobs_of
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_a_commit_takes_the_same_jobs_in_each_time_zone(interpreting: SparkSession, zone: str, tmp_path: Path) -> None:
    """Delta computes the state of the table's log after a commit in no zone; its rows are the same."""
    taken: dict[str, int] = {}
    for number, name in enumerate(("UTC", zone)):
        interpreting.conf.set("spark.sql.session.timeZone", name)
        table = str(tmp_path / str(number))
        for first in (0, 10):
            before = jobs_of(interpreting)
            interpreting.range(first, first + 2, numPartitions=1).write.format("delta").mode("append").save(table)
            taken[name] = len(jobs_of(interpreting) - before)
        assert sorted(tuple(row) for row in table_rows(interpreting, table)) == [(0,), (1,), (10,), (11,)]
    assert taken["UTC"] == taken[zone] > 0


def test_a_partition_that_stores_times_as_others_is_a_warning(interpreting: SparkSession, tmp_path: Path) -> None:
    """The zone is that in which the table's flows write; times without a zone, dates and clustered tables are exact."""
    zone = "spark.sql.session.timeZone"
    interpreting.conf.set(zone, "America/New_York")
    cases = [
        ("own", ["at"], {}), ("berlin", ["day", "at"], {zone: "Europe/Berlin"}), ("utc", ["at"], {zone: "UTC"}),
        ("offset", ["at"], {zone: "+05:30"}), ("fixed", ["at"], {zone: "Asia/Kolkata"}),
        ("local", ["local", "day"], {}),
    ]  # fmt: skip

    def times() -> DataFrame:
        rows = interpreting.readStream.format("rate").load()
        return rows.selectExpr(
            "timestamp AS at", "timestamp::timestamp_ntz AS local", "timestamp::date AS day", "value"
        )

    def declare() -> None:
        for name, columns, settings in cases:
            dp.table(name=name, partition_cols=columns, spark_conf=settings)(times)
        dp.table(name="clustered", cluster_by=["at"])(times)
        rows = "SELECT TIMESTAMP'2026-01-01' AS at, 1 AS value"
        dp.materialized_view(name="view", partition_cols=["`AT`"])(lambda: interpreting.sql(rows))

    warnings = EngineWorld(interpreting, tmp_path).pipeline(declare).validate().warnings
    named = {str(each.fields["dataset"]).rpartition(".")[2]: each.fields["zone"] for each in warnings}
    assert named == {"own": "America/New_York", "berlin": "Europe/Berlin", "view": "America/New_York"}
    assert {each.fields["column"] for each in warnings} == {"at"}
    assert {(each.condition, each.location is not None) for each in warnings} == {("PARTITION_STORES_OTHER_HOUR", True)}
