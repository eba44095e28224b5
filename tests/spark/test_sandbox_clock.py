"""The clock of a sandbox is the time of everything that an update does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.sandbox.sandbox import Sandbox

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

SPEC = """
name: clocked
libraries:
  - file: {path: module.py}
  - file: {path: view.sql}
spark_conf:
  spark.sql.session.timeZone: Asia/Tokyo
configuration:
  pipelines.cdc.tombstoneGCThresholdInSeconds: "86400"
"""

MODULE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
@dp.expect("has happened", "at <= current_timestamp()")
@dp.expect_or_drop("is recent", "at > now() - INTERVAL 2 DAYS")
def events():
    found = spark.readStream.schema("id INT, at TIMESTAMP, kind STRING").json("data/events")
    return found.select(
        "*",
        F.current_timestamp().alias("seen"),
        F.current_date().alias("day"),
        F.unix_timestamp().alias("seconds"),
        F.expr("localtimestamp()").alias("local"),
        F.expr("current_timestamp").alias("keyword"),
        F.col("_metadata.file_modification_time").alias("file_time"),
    )


@dp.materialized_view
def ages():
    return spark.read.table("events").select("id", (F.unix_timestamp() - F.unix_timestamp("at")).alias("age"))


@dp.temporary_view
def changes():
    return spark.readStream.table("events").select("id", "at", "kind", F.current_timestamp().alias("applied"))


dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(
    target="latest", source="changes", keys=["id"], sequence_by="at", apply_as_deletes=F.expr("kind = 'D'")
)
"""

VIEW = """
CREATE MATERIALIZED VIEW stamped AS
SELECT id, now() AS now, current_date AS day, CAST(current_time(0) AS STRING) AS time
FROM events WHERE at <= (SELECT max(current_timestamp()));
"""


@pytest.fixture
def clocked(interpreting: SparkSession, tmp_path: Path) -> Iterator[Sandbox]:
    """A pipeline that asks for the time in each place where it can."""
    for name, text in {"pipeline.yml": SPEC, "module.py": MODULE, "view.sql": VIEW}.items():
        (tmp_path / name).write_text(text)
    with Pipeline.from_spec(tmp_path / "pipeline.yml", spark=interpreting).sandbox(tmp_path / "sandbox") as sandbox:
        yield sandbox


def rows(sandbox: Sandbox, dataset: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a dataset by id, with times as text in the session's zone."""
    table = sandbox.table(dataset)
    return [
        tuple(row) for row in table.orderBy("id").select(*(table[each].cast("string") for each in columns)).collect()
    ]


def test_an_update_has_the_time_of_the_clock(clocked: Sandbox) -> None:
    """Queries in Python and SQL, batches and streams, expectations, AUTO CDC, files and events have one time."""
    clocked.clock.at("2026-01-01T21:00")  # in Tokyo
    given = [(1, "2026-01-01 20:00:00", "U"), (2, "2026-01-01 22:00:00", "U"), (3, "2025-12-30 20:00:00", "U")]
    clocked.given("data/events", given)
    result = clocked.update()

    noon, day = "2026-01-01 21:00:00", "2026-01-01"
    seen = (noon, day, str(int(NOON.timestamp())), noon, noon, noon)
    columns = ("seen", "day", "seconds", "local", "keyword", "file_time")
    assert rows(clocked, "events", "id", *columns) == [("1", *seen), ("2", *seen)]
    counts = {each.name: (each.passed, each.failed) for flow in result.flows for each in flow.expectations}
    assert counts == {"has happened": (2, 1), "is recent": (2, 1)}
    assert rows(clocked, "ages", "id", "age") == [("1", "3600"), ("2", "-3600")]
    assert rows(clocked, "stamped", "id", "now", "day", "time") == [("1", noon, day, "21:00:00")]
    assert rows(clocked, "latest", "id", "applied") == [("1", noon), ("2", noon)]
    assert times_of_events(clocked) == {"2026-01-01T12:00:00.000Z"}

    clocked.clock.advance(hours=1)
    clocked.update()

    assert rows(clocked, "events", "id", *columns) == [("1", *seen), ("2", *seen)]
    assert rows(clocked, "ages", "id", "age") == [("1", "7200"), ("2", "0")]
    later = ("2026-01-01 22:00:00", day, "22:00:00")
    assert rows(clocked, "stamped", "id", "now", "day", "time") == [("1", *later), ("2", *later)]


def times_of_events(sandbox: Sandbox) -> set[str]:
    """The times of all events of all updates."""
    logs = Path(sandbox.storage, "events").glob("*.jsonl")
    return {json.loads(line)["timestamp"] for log in logs for line in log.read_text().splitlines()}


def test_deletes_are_forgotten_by_the_clock(clocked: Sandbox) -> None:
    """After a day of the clock, a late event restores a row, as it does after a day of the machine's time."""
    clocked.clock.at(NOON)
    clocked.given("data/events", [(1, "2026-01-01 10:00:00", "D"), (1, "2026-01-01 08:00:00", "U")])
    clocked.update("latest")
    clocked.clock.advance(hours=23)
    clocked.arrives("data/events", [(1, "2026-01-01 09:00:00", "U")])
    clocked.update("latest")
    held = rows(clocked, "latest", "id")
    clocked.clock.advance(hours=2)
    clocked.arrives("data/events", [(2, "2026-01-01 09:00:00", "U")])
    clocked.update("latest")
    clocked.arrives("data/events", [(1, "2026-01-01 09:30:00", "U")])
    clocked.update("latest")

    assert (held, rows(clocked, "latest", "id")) == ([], [("1",), ("2",)])
