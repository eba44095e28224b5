"""Pure functions that convert Spark's progress of a micro-batch into the event log's metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

# The source metrics that report unread data, with their names in the event log.
_BACKLOG_METRICS: Mapping[str, str] = {
    "numBytesOutstanding": "backlog_bytes",
    "estimatedTotalBytesBehindLatest": "backlog_bytes",
    "numFilesOutstanding": "backlog_files",
    "numRecordsOutstanding": "backlog_records",
}
_ROW_METRICS = ("num_output_rows", "num_upserted_rows", "num_deleted_rows", "num_late_rows")


def flow_metrics(progress: Mapping[str, Any]) -> dict[str, int]:
    """Return the metrics of a flow_progress event from one StreamingQueryProgress as a dictionary.

    Row counts come from observed metrics with these names. If num_output_rows is not observed, it is the row count of
    the sink, if the sink has one (Delta's sink has none). The backlog is the sum over the sources that report one. A
    metric that no source reports is omitted, because 0 would mean an empty backlog.
    """
    metrics: dict[str, int] = {}
    for observed in observed_metrics(progress).values():
        metrics |= {name: int(observed[name]) for name in _ROW_METRICS if observed.get(name) is not None}
    sink_rows = (progress.get("sink") or {}).get("numOutputRows", -1)
    if "num_output_rows" not in metrics and sink_rows is not None and sink_rows >= 0:
        metrics["num_output_rows"] = int(sink_rows)
    for source in progress.get("sources") or ():
        for name, value in _source_backlog(source).items():
            metrics[name] = metrics.get(name, 0) + value
    return metrics


def observed_metrics(progress: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the observed metrics of a batch by name, with Spark rows converted to dictionaries."""
    observed = progress.get("observedMetrics") or {}
    return {name: dict(row.asDict() if hasattr(row, "asDict") else row) for name, row in observed.items()}


def stream_details(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a stream_progress event from one StreamingQueryProgress as a dictionary."""
    return {
        "stream_name": progress.get("name"),
        "id": progress.get("id"),
        "run_id": progress.get("runId"),
        "timestamp": progress.get("timestamp"),
        "batch_id": progress.get("batchId"),
        "batch_duration_ms": _measured(progress.get("batchDuration")),
        "num_input_rows": progress.get("numInputRows"),
        "input_rows_per_second": _measured(progress.get("inputRowsPerSecond")),
        "processed_rows_per_second": _measured(progress.get("processedRowsPerSecond")),
        "duration_ms": {name: each for name, each in (progress.get("durationMs") or {}).items() if each >= 0},
        "state_operators": [dict(each) for each in progress.get("stateOperators") or ()],
        "sources": [_source_details(each) for each in progress.get("sources") or ()],
        "sink": {"description": (progress.get("sink") or {}).get("description")},
    }


def _source_details(source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "description": source.get("description"),
        "start_offset": source.get("startOffset"),
        "end_offset": source.get("endOffset"),
        "latest_offset": source.get("latestOffset"),
        "num_input_rows": source.get("numInputRows"),
        "metrics": dict(source.get("metrics") or {}),
    }


def _source_backlog(source: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in (source.get("metrics") or {}).items():
        if name in _BACKLOG_METRICS and _is_number(value):
            found[_BACKLOG_METRICS[name]] = int(float(value))
    behind = _offsets_behind(source.get("endOffset"), source.get("latestOffset"))
    if behind is not None:
        found.setdefault("backlog_records", behind)
    return found


def _offsets_behind(end: Any, latest: Any) -> int | None:
    """Return the number of records between two Kafka offsets, {topic: {partition: number}}; None for other offsets."""
    end, latest = _parsed(end), _parsed(latest)
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    behind = 0
    for topic, partitions in latest.items():
        reached = end.get(topic)
        if not isinstance(partitions, dict) or not isinstance(reached, dict):
            return None
        for partition, newest in partitions.items():
            position = reached.get(partition, 0)
            if not isinstance(newest, int) or not isinstance(position, int):
                return None
            behind += max(newest - position, 0)
    return behind


def _parsed(offset: Any) -> Any:
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def _measured(value: Any) -> Any:
    """Return a duration or rate; None for NaN, infinity and negative values, as after Spark's clock was set back."""
    return None if value is not None and (not math.isfinite(value) or value < 0) else value
