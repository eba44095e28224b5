"""Spark's progress of a micro-batch becomes the event log's metrics, without invented values."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row

from framework.record.progress import flow_metrics, observed_metrics, stream_details

DELTA_OFFSET = {"reservoirId": "t", "reservoirVersion": 2, "index": -1, "isStartingVersion": False}
PROGRESS: dict[str, Any] = {
    "id": "q-1",
    "runId": "r-1",
    "name": None,
    "timestamp": "2026-11-21T04:03:04.968Z",
    "batchId": 3,
    "batchDuration": 1305,
    "numInputRows": 20,
    "inputRowsPerSecond": float("nan"),
    "processedRowsPerSecond": 1.5,
    "durationMs": {"addBatch": 1570},
    "stateOperators": [],
    "sources": [
        {
            "description": "DeltaSource[file:/t]",
            "startOffset": None,
            "endOffset": DELTA_OFFSET,
            "latestOffset": None,
            "numInputRows": 20,
        }
    ],
    "sink": {"description": "DeltaSink[/out]", "numOutputRows": -1},
}


def with_sources(*sources: dict[str, Any]) -> dict[str, Any]:
    """The progress with other sources."""
    return {**PROGRESS, "sources": list(sources)}


def test_a_delta_sink_without_observations_counts_no_rows() -> None:
    """A sink that does not count (-1) gives no number, rather than a wrong one."""
    assert flow_metrics(PROGRESS) == {}


def test_a_sink_that_counts_is_believed() -> None:
    """The sink's own count is the number of output rows, 0 included."""
    assert flow_metrics({**PROGRESS, "sink": {"numOutputRows": 0}}) == {"num_output_rows": 0}


@pytest.mark.parametrize("make", [dict, Row], ids=["dictionary", "row"])
def test_observed_rows_win_over_the_sink(make: Any) -> None:
    """Observed metrics with known names are used, as a dictionary or as a Spark row; others are ignored."""
    observed = {"sluice": make(num_output_rows=7, num_deleted_rows=2, other=5), "mine": make(x=1)}
    progress = {**PROGRESS, "observedMetrics": observed, "sink": {"numOutputRows": 20}}
    assert flow_metrics(progress) == {"num_output_rows": 7, "num_deleted_rows": 2}
    assert observed_metrics(progress)["mine"] == {"x": 1}


def test_the_backlog_is_summed_over_the_sources_that_report_one() -> None:
    """Unread bytes and files are summed; sources without a report add nothing."""
    sources: list[dict[str, Any]] = [
        {"metrics": {"numBytesOutstanding": "100", "numFilesOutstanding": "3"}},
        {"metrics": {"numBytesOutstanding": "50.0", "numFilesOutstanding": "NaN", "other": "x"}},
        {"metrics": None},
    ]
    assert flow_metrics(with_sources(*sources)) == {"backlog_bytes": 150, "backlog_files": 3}


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7,"2":3}}', {"backlog_records": 7}),
        ({"t": {"0": 9}}, {"t": {"0": 9}}, {"backlog_records": 0}),
        ({"t": {"0": 9}}, {"other": {"0": 9}}, {}),
        (DELTA_OFFSET, DELTA_OFFSET, {}),
        ("not json", '{"t":{"0":9}}', {}),
        ('{"chunk":4}', '{"chunk":20}', {}),
        (None, None, {}),
    ],
)
def test_offsets_by_partition_tell_the_records_behind(end: Any, latest: Any, expected: dict[str, int]) -> None:
    """Kafka's offsets are compared per partition; the lag of other offset formats is unknown."""
    assert flow_metrics(with_sources({"endOffset": end, "latestOffset": latest})) == expected


def test_the_details_of_a_stream_hold_its_batch_and_sources() -> None:
    """The details have the event log's names, and None where JSON has no number."""
    assert stream_details(PROGRESS) == {
        "stream_name": None,
        "id": "q-1",
        "run_id": "r-1",
        "timestamp": "2026-11-21T04:03:04.968Z",
        "batch_id": 3,
        "batch_duration_ms": 1305,
        "num_input_rows": 20,
        "input_rows_per_second": None,
        "processed_rows_per_second": 1.5,
        "duration_ms": {"addBatch": 1570},
        "state_operators": [],
        "sources": [
            {
                "description": "DeltaSource[file:/t]",
                "start_offset": None,
                "end_offset": DELTA_OFFSET,
                "latest_offset": None,
                "num_input_rows": 20,
                "metrics": {},
            }
        ],
        "sink": {"description": "DeltaSink[/out]"},
    }


def test_a_batch_in_which_the_clock_was_set_back_has_no_duration() -> None:
    """Spark takes times from the clock of the machine: what is below zero is unknown."""
    set_back = {
        **PROGRESS,
        "batchDuration": -3_598_695,
        "processedRowsPerSecond": -0.005,
        "durationMs": {"a": -1, "b": 2},
    }
    found = stream_details(set_back)
    assert (found["batch_duration_ms"], found["processed_rows_per_second"], found["duration_ms"]) == (
        None,
        None,
        {"b": 2},
    )
