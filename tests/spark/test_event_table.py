"""Spark reads the event log as a table with Databricks' columns."""

from __future__ import annotations

import pathlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from framework.foundation.files.storage import LocalStorage
from framework.pipeline import Pipeline
from framework.record.drafts import flow_progress, update_progress
from framework.record.events import EVENT_READ_OPTIONS, EVENT_SCHEMA, Origin, summarize_error
from framework.record.log import EventLog
from framework.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_pipeline_shows_its_events_and_none_before_its_first_update(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    """Without an update the log is an empty table; half a line that a kill left is no row of it."""
    pipeline = Pipeline(name="p", storage=tmp_path, spark=spark)
    before = pipeline.events().count()
    with EventLog(pipeline.storage, Origin(pipeline_id="p", pipeline_name="p", update_id="u")) as log:
        log.record(update_progress(state="RUNNING"))
        log.record(update_progress(state="FAILED"))
    file = tmp_path / "events" / "u.jsonl"
    file.write_text(file.read_text()[:-20])
    assert (before, [row.message for row in pipeline.events().collect()]) == (0, ["The update is RUNNING."])


def test_events_are_rows_with_their_details_as_json(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Structs, times and errors are typed, details are a JSON text, and a cut-off line is no row."""
    with EventLog(
        LocalStorage(str(tmp_path)), Origin(pipeline_id="p", pipeline_name="f", update_id="u"), ManualClock()
    ) as log:
        log.record(flow_progress(flow="m.f.x", dataset="m.f.t", status="RUNNING", metrics={"num_output_rows": 8}))
        log.record(update_progress(state="FAILED", error=summarize_error(ValueError("bang"), fatal=True)))
        log.record(update_progress(state="CANCELED"))
    file = tmp_path / "events" / "u.jsonl"
    file.write_text(file.read_text()[:-50])
    events = spark.read.schema(EVENT_SCHEMA).options(**EVENT_READ_OPTIONS).json(str(tmp_path / "events"))
    rows = events.selectExpr(
        "sequence.data_plane_id.seq_no AS number",
        "origin.flow_name",
        "timestamp",
        "level",
        "event_type",
        "CAST(get_json_object(details, '$.flow_progress.metrics.num_output_rows') AS INT) AS num_rows",
        "error.exceptions[0].message AS problem",
    ).collect()
    moment = datetime(2026, 1, 1, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert sorted(tuple(row) for row in rows) == [
        (1, "m.f.x", moment, "METRICS", "flow_progress", 8, None),
        (2, None, moment, "ERROR", "update_progress", None, "bang"),
    ]
