"""The metrics of a server as Prometheus reads them; what is unknown is absent, and never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from framework.operations.metrics.event_counts import PipelineCounts
from framework.recovery.flow_lag import FlowHealth, FlowLag

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_FLOW = ["pipeline", "flow"]
_HEALTH = {"RUNNING": "running", "STARTING": "running", "IDLE": "idle", "FAILED": "failed", "DEGRADED": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSample:
    """What is known about a pipeline now.

    Args:
        state: what it does, such as IDLE or RUNNING; None if its storage can't be read.
        counts: its counters.
        missed: the number of missed times by schedule.
        lags: how far its flows are behind.
        engine_bytes: the memory of the processes of its update; None without one on this machine.
    """

    name: str
    state: str | None
    counts: PipelineCounts
    missed: Mapping[str, int] = field(default_factory=dict)
    lags: Sequence[FlowLag] = ()
    engine_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """What is known about the server now: its engines, its pipelines and its streams."""

    version: str
    pipelines: int
    engines_running: int
    engines_queued: int
    engines_most: int
    streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Everything that one answer of `/metrics` has."""

    pipelines: Sequence[PipelineSample]
    server: ServerSample | None = None


class SluiceCollector(Collector):
    """Makes the families of metrics from samples.

    Args:
        read: returns the present values.
    """

    def __init__(self, read: Callable[[], Sample]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        sample = self._read()
        yield from _pipelines(sample.pipelines)
        yield from _flows(sample.pipelines)
        yield from _quality(sample.pipelines)
        if sample.server is not None:
            yield from _server(sample.server)


def metrics_text(read: Callable[[], Sample]) -> bytes:
    """Return the answer of `/metrics`, of the type `CONTENT_TYPE`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SluiceCollector(read))
    return generate_latest(registry)


def _pipelines(pipelines: Sequence[PipelineSample]) -> Iterator[Metric]:
    state = GaugeMetricFamily("sluice_pipeline_state", "1 for what a pipeline does now.", labels=["pipeline", "state"])
    updates = CounterMetricFamily(
        "sluice_update", "Updates that have ended, by result and cause.", labels=["pipeline", "result", "cause"]
    )
    seconds = HistogramMetricFamily("sluice_update_seconds", "Durations of updates.", labels=["pipeline"])
    missed = CounterMetricFamily(
        "sluice_schedule_missed", "Times of a schedule at which no server ran.", labels=["pipeline", "schedule"]
    )
    engines = GaugeMetricFamily(
        "sluice_engine_memory_bytes", "Resident memory of the update that runs on this machine.", labels=["pipeline"]
    )
    for each in pipelines:
        if each.state is not None:
            state.add_metric([each.name, each.state], 1)
        for (result, cause), number in sorted(each.counts.updates.items()):
            updates.add_metric([each.name, result, cause], number)
        durations = each.counts.seconds
        seconds.add_metric([each.name], durations.buckets, sum_value=durations.sum)
        for schedule, number in sorted(each.missed.items()):
            missed.add_metric([each.name, schedule], number)
        if each.engine_bytes is not None:
            engines.add_metric([each.name], each.engine_bytes)
    yield from (state, updates, seconds, missed, engines)


def _flows(pipelines: Sequence[PipelineSample]) -> Iterator[Metric]:
    rows = CounterMetricFamily("sluice_flow_rows", "Rows of flows.", labels=[*_FLOW, "kind"])
    health = GaugeMetricFamily(
        "sluice_flow_health",
        "1 for the health of a flow: running, idle, behind, stuck, failed, done or not_started.",
        labels=[*_FLOW, "health"],
    )
    snapshots = GaugeMetricFamily(
        "sluice_snapshot_percent", "Progress of the snapshot of an ingested table.", labels=["pipeline", "dataset"]
    )
    for each in pipelines:
        for (flow, kind), number in sorted(each.counts.rows.items()):
            rows.add_metric([each.name, flow, kind], number)
        for flow, known in sorted(_health(each).items()):
            health.add_metric([each.name, flow, known], 1)
        for dataset, percent in sorted(each.counts.snapshots.items()):
            snapshots.add_metric([each.name, dataset], percent)
    yield from (rows, health, *_lags(pipelines), snapshots)


def _health(pipeline: PipelineSample) -> dict[str, str]:
    """Return the health of each flow: as measured, or else as its events say while an update runs."""
    states = {flow: _HEALTH.get(status) for flow, status in pipeline.counts.states.items()}
    measured = {str(each.flow): each.health for each in pipeline.lags if each.health is not FlowHealth.UNKNOWN}
    found = states | {flow: health.value.replace(" ", "_") for flow, health in measured.items()}
    return {flow: health for flow, health in found.items() if health is not None}


def _lags(pipelines: Sequence[PipelineSample]) -> Iterator[Metric]:
    values: Mapping[str, tuple[str, Callable[[FlowLag], float | None]]] = {
        "sluice_flow_lag_seconds": ("Age of the oldest unread commit or file.", lambda flow: flow.lag.seconds),
        "sluice_flow_lag_rows": ("Unread rows.", lambda flow: flow.lag.records),
        "sluice_flow_lag_bytes": ("Unread bytes.", lambda flow: flow.lag.bytes),
        "sluice_flow_gap_seconds": (
            "Time until the source may delete what is unread; 0 if it has begun.", lambda flow: flow.lost_in_seconds
        ),
    }  # fmt: skip
    for name, (text, value_of) in values.items():
        family = GaugeMetricFamily(name, text, labels=_FLOW)
        for each in pipelines:
            for flow in each.lags:
                if (value := value_of(flow)) is not None:
                    family.add_metric([each.name, str(flow.flow)], value)
        yield family


def _quality(pipelines: Sequence[PipelineSample]) -> Iterator[Metric]:
    labels = ["pipeline", "dataset", "expectation", "outcome"]
    records = CounterMetricFamily("sluice_expectation_records", "Records by outcome of an expectation.", labels=labels)
    for each in pipelines:
        for key, number in sorted(each.counts.expectations.items()):
            records.add_metric([each.name, *key], number)
    yield records


def _server(server: ServerSample) -> Iterator[Metric]:
    info = GaugeMetricFamily("sluice_server_info", "1, with the version of the server.", labels=["version"])
    info.add_metric([server.version], 1)
    yield info
    values = {
        "sluice_server_pipelines": ("Pipelines that the server has found.", server.pipelines),
        "sluice_server_engines_running": ("Updates that run on this machine.", server.engines_running),
        "sluice_server_engines_queued": ("Updates that wait for room or for another update.", server.engines_queued),
        "sluice_server_engines_most": ("Updates that may run at the same time.", server.engines_most),
        "sluice_server_streams": ("Open pages.", server.streams),
    }
    for name, (text, value) in values.items():
        family = GaugeMetricFamily(name, text)
        family.add_metric([], value)
        yield family
