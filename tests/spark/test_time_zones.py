"""What a session's time zone changes, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.test_updates import jobs_of
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
