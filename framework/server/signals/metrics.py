"""The metrics of the server and its pipelines: counted from the logs at the first request, then event by event."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from framework.foundation.errors import SluiceError
from framework.operations.metrics.collector import PipelineSample, Sample, ServerSample
from framework.operations.metrics.event_counts import PipelineCounts
from framework.operations.scheduling.state import ScheduleStore
from framework.record.events import Event
from framework.recovery.flow_lag import FlowLag
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.signals.engine_memory import engine_memory
from framework.server.signals.lags import Lags

_LAG_SECONDS = 10.0


class Metrics:
    """Counts the events of all pipelines; a part of the server.

    Nothing is counted before the first request for metrics. An event that is read twice is counted once.

    Args:
        server: the server.
        lags: measures how far flows are behind.
    """

    def __init__(self, server: Server, lags: Lags) -> None:
        self._server = server
        self._lags = lags
        self._counts: dict[str, PipelineCounts] = {}
        self._lock = threading.Lock()

    def on_event(self, entry: PipelineEntry, event: Event) -> None:
        """Count a new event, if anybody has asked for metrics."""
        if entry.pipeline_id in self._counts:
            with self._lock:
                self._counts[entry.pipeline_id].apply(event)

    def look(self) -> None:
        """Do nothing: metrics are made when they are asked for."""

    def row_fields(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return no fields."""
        del entry
        return {}

    def sample(self, pipelines: Sequence[PipelineEntry], *, with_server: bool = True) -> Sample:
        """Return the present values.

        Args:
            pipelines: the pipelines that the caller sees.
            with_server: whether the caller sees the server's own values.
        """
        found = [self._sample(each) for each in pipelines]
        return Sample(pipelines=found, server=self._server_sample() if with_server else None)

    def _sample(self, entry: PipelineEntry) -> PipelineSample:
        state = self._server.reader(entry).state
        update = state.update
        with self._lock:
            counts = self._counts.get(entry.pipeline_id)
            if counts is None:
                counts = self._counts[entry.pipeline_id] = PipelineCounts(entry.name)
                counts.seed(entry.storage, self._server.settings.cache)
            counts.settle(None if update is None else update.update_id)
            counts = counts.copy()
        activity = None if state.fault is not None else state.activity.value
        return PipelineSample(
            name=entry.name, state=activity, counts=counts, missed=_missed(entry), lags=self._measured(entry),
            engine_bytes=engine_memory(self._server.reader(entry).holder),
        )  # fmt: skip

    def _measured(self, entry: PipelineEntry) -> tuple[FlowLag, ...]:
        """Return how far flows are behind; nothing if that can't be read, because unknown is absent."""
        try:
            return self._lags.of(entry, _LAG_SECONDS).flows
        except SluiceError:
            return ()

    def _server_sample(self) -> ServerSample:
        server = self._server
        return ServerSample(
            version=server.settings.version, pipelines=len(server.pipelines()),
            engines_running=server.starter.running, engines_queued=len(server.starter.waiting()),
            engines_most=server.starter.most_engines, streams=server.hub.streams,
        )  # fmt: skip


def _missed(entry: PipelineEntry) -> dict[str, int]:
    """Return the missed times by schedule; nothing if they can't be read, because unknown is absent."""
    try:
        states = ScheduleStore(entry.storage, entry.name).read().states
    except SluiceError:
        return {}
    return {name: state.missed for name, state in states.items()}
