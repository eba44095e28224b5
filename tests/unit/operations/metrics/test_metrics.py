"""Metrics are those of the events, never fall, and are text that Prometheus' own parser reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from framework.foundation.files.local_storage import LocalStorage
from framework.operations.metrics.collector import PipelineSample, Sample, ServerSample, metrics_text
from framework.operations.metrics.event_counts import PipelineCounts
from framework.record import drafts
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.testing.manual_clock import ManualClock
from tests.support.recorded_updates import RecordedFlow, Recorder

LOAD = RecordedFlow(
    name="load", target="orders", seconds=4.0, metrics={"num_output_rows": 1200, "num_quarantined_rows": 2},
    quality={"has_id": (1197, 3)},
)  # fmt: skip
BROKEN = RecordedFlow(name="load", target="orders", state="FAILED", seconds=1.0)
_LABELS = (
    "version",
    "pipeline",
    "schedule",
    "flow",
    "dataset",
    "expectation",
    "result",
    "cause",
    "state",
    "kind",
    "health",
    "outcome",
)
Values = dict[tuple[str, ...], float]


def values(counts: PipelineCounts, state: str | None = "IDLE", server: ServerSample | None = None) -> Values:
    """The samples by name and label values, as a parser reads them; without the buckets of histograms."""
    sample = Sample(
        pipelines=[PipelineSample(name="shop", state=state, counts=counts, missed={"nightly": 2})], server=server
    )
    text = metrics_text(lambda: sample).decode()
    return {
        (each.name, *(each.labels[label] for label in sorted(each.labels, key=_LABELS.index))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if "le" not in each.labels
    }


def counted(recorder: Recorder) -> PipelineCounts:
    """The counters after the recorded events."""
    counts = PipelineCounts("shop")
    counts.apply_all(recorder.events)
    return counts


def test_the_counters_are_those_of_the_events(tmp_path: Path) -> None:
    """Updates by result and cause, durations, rows by kind, expectations, missed times; a failed flow is named."""
    recorder = Recorder(storage=LocalStorage(str(tmp_path)))
    recorder.update("u-1", LOAD, cause="JOB_TASK")
    recorder.update("u-2", LOAD, cause="JOB_TASK")
    recorder.update("u-3", BROKEN, state="FAILED")
    found = values(counted(recorder))
    assert {
        ("sluice_pipeline_state", "shop", "IDLE"): 1.0,
        ("sluice_update_total", "shop", "COMPLETED", "JOB_TASK"): 2.0,
        ("sluice_update_total", "shop", "FAILED", "USER_ACTION"): 1.0,
        ("sluice_update_seconds_count", "shop"): 3.0,
        ("sluice_update_seconds_sum", "shop"): 9.0,
        ("sluice_schedule_missed_total", "shop", "nightly"): 2.0,
        ("sluice_flow_rows_total", "shop", "main.shop.load", "output"): 2400.0,
        ("sluice_flow_rows_total", "shop", "main.shop.load", "quarantined"): 4.0,
        ("sluice_flow_rows_total", "shop", "main.shop.load", "dropped"): 0.0,
        ("sluice_flow_health", "shop", "main.shop.load", "failed"): 1.0,
        ("sluice_expectation_records_total", "shop", "main.shop.orders", "has_id", "passed"): 2394.0,
        ("sluice_expectation_records_total", "shop", "main.shop.orders", "has_id", "failed"): 6.0,
    } == found


def test_durations_are_in_cumulative_buckets(tmp_path: Path) -> None:
    """Two updates of four seconds and one of one second, at the bounds of 1 and 5."""
    recorder = Recorder(storage=LocalStorage(str(tmp_path)))
    for update, flow in (("u-1", LOAD), ("u-2", LOAD), ("u-3", BROKEN)):
        recorder.update(update, flow)
    assert [("1", 1.0), ("5", 3.0), ("15", 3.0)] == counted(recorder).seconds.buckets[:3]
    assert ("+Inf", 3.0) == counted(recorder).seconds.buckets[-1]


def test_what_is_unknown_is_absent(tmp_path: Path) -> None:
    """The progress of what runs is known while an update runs, and no zero stands for the time after."""
    storage, clock, events = LocalStorage(str(tmp_path)), ManualClock(), PipelineCounts("shop")
    flow: dict[str, Any] = {"flow": "main.shop.load", "dataset": "main.shop.orders"}
    with EventLog(storage, Origin(pipeline_id="p", pipeline_name="shop", update_id="u-1"), clock) as log:
        log.subscribe(events.apply)
        log.record(drafts.create_update(cause="USER_ACTION"))
        log.record(drafts.flow_progress(**flow, status="RUNNING", metrics={"num_output_rows": 5}))
        log.record(
            drafts.operation_progress(
                operation="CDC_SNAPSHOT", status="IN_PROGRESS", dataset="main.shop.orders", progress_percent=62.0
            )
        )
        running = values(events, "RUNNING")
        log.record(drafts.update_progress(state="COMPLETED"))
    ended = values(events, None)
    measured = {key: value for key, value in running.items() if key[0] == "sluice_snapshot_percent"}
    assert {("sluice_snapshot_percent", "shop", "main.shop.orders"): 62.0} == measured
    assert 1.0 == running["sluice_flow_health", "shop", "main.shop.load", "running"]
    names = {"sluice_pipeline_state", "sluice_snapshot_percent", "sluice_flow_health", "sluice_engine_memory_bytes"}
    assert set() == {key[0] for key in ended} & names


def test_an_update_without_an_end_is_lost_once(tmp_path: Path) -> None:
    """While it runs it is not counted; when its process is gone, or another update begins, it is LOST."""
    recorder = Recorder(storage=LocalStorage(str(tmp_path)))
    recorder.update("u-1", LOAD, state=None)
    counts = counted(recorder)
    counts.settle("u-1")
    assert {} == counts.updates
    counts.settle(None)
    counts.settle(None)
    recorder.update("u-2", LOAD, state=None)
    recorder.update("u-3", LOAD)
    counts.apply_all(recorder.events)
    assert {("LOST", "USER_ACTION"): 2, ("COMPLETED", "USER_ACTION"): 1} == counts.updates


def test_counters_seeded_from_the_log_go_on(tmp_path: Path) -> None:
    """A restart of the server does not reset them, and events that are read twice count once."""
    recorder = Recorder(storage=LocalStorage(str(tmp_path / "storage")))
    for number in range(3):
        recorder.update(f"u-{number}", LOAD)
    Recorder(storage=recorder.storage, pipeline="other").update("o-1", LOAD)
    counts = PipelineCounts("shop")
    counts.seed(recorder.storage, tmp_path / "cache")
    assert values(counted(recorder)) == values(counts)
    counts.apply_all(recorder.events)
    assert values(counted(recorder)) == values(counts)
    recorder.update("u-9", LOAD)
    counts.apply_all(recorder.events)
    assert 4 * 1200 == counts.rows["main.shop.load", "output"]


def test_batches_add_up_and_their_end_has_the_total(tmp_path: Path) -> None:
    """A run of 5 and 7 rows whose end says 15 has 15; the next run of the same flow adds its own."""
    counts, clock = PipelineCounts("shop"), ManualClock()
    flow: dict[str, Any] = {"flow": "main.shop.load", "dataset": "main.shop.orders"}
    found = []
    with EventLog(
        LocalStorage(str(tmp_path)), Origin(pipeline_id="p", pipeline_name="shop", update_id="u"), clock
    ) as log:
        log.subscribe(counts.apply)
        for status, rows in (
            ("RUNNING", 5), ("RUNNING", 7), ("COMPLETED", 15), ("RUNNING", 4), ("FAILED", None), ("RUNNING", 1)
        ):  # fmt: skip
            metrics = None if rows is None else {"num_output_rows": rows}
            log.record(drafts.flow_progress(**flow, status=status, metrics=metrics))
            found.append(counts.rows["main.shop.load", "output"])
    assert [5, 12, 15, 19, 19, 20] == found


@settings(max_examples=30, deadline=None)
@given(name=st.text(min_size=1), state=st.sampled_from(["IDLE", None]))
def test_any_name_is_read_back(name: str, state: str | None) -> None:
    """Quotes, line breaks and backslashes in the names of pipelines are escaped."""
    if name.encode(errors="ignore").decode() != name:
        return  # a lone surrogate is no text that a spec can have
    sample = Sample(pipelines=[PipelineSample(name=name, state=state, counts=PipelineCounts(name))])
    text = metrics_text(lambda: sample).decode()
    families = list(text_string_to_metric_families(text))
    labels = {each.labels["pipeline"] for family in families for each in family.samples}
    assert {name} == labels


def test_the_server_has_its_own_metrics() -> None:
    """Its version, pipelines, engines and streams."""
    server = ServerSample(version="0.1.0", pipelines=7, engines_running=2, engines_queued=1, engines_most=6, streams=50)
    found = values(PipelineCounts("shop"), server=server)
    assert {
        ("sluice_server_info", "0.1.0"): 1.0,
        ("sluice_server_pipelines",): 7.0,
        ("sluice_server_engines_running",): 2.0,
        ("sluice_server_engines_queued",): 1.0,
        ("sluice_server_engines_most",): 6.0,
        ("sluice_server_streams",): 50.0,
    } == {key: value for key, value in found.items() if key[0].startswith("sluice_server")}
