"""Routes of schedules and metrics, and the parts of the server behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response

from framework.foundation.errors import SluiceError
from framework.foundation.secrets.known_secrets import hide_known
from framework.operations import metrics as metrics_package
from framework.operations.metrics.collector import CONTENT_TYPE, metrics_text
from framework.operations.scheduling.listing import (
    ScheduleRow,
    pause_schedule,
    resume_schedule,
    schedule_json,
    unseen_sources,
)
from framework.server.access.roles import Role
from framework.server.pipelines import PipelineEntry
from framework.server.server import Part, Server
from framework.server.signals.alerts import Alerts, Explain, alert_json
from framework.server.signals.lags import Lags
from framework.server.signals.metrics import Metrics
from framework.server.signals.restarts import Restarts
from framework.server.signals.schedules import Schedules, schedule_id, selections
from framework.server.stream import HOME
from framework.server.values import asdict_shallow
from framework.server.web.faults import not_found, shortened
from framework.server.web.routes import Call, Route
from framework.server.web.updates import start_update

_SCHEDULE = "/schedules/{schedule}"
_MOST_ALERTS = 200
_FILES = {
    "alerts.yml": "Alert rules for Prometheus over these metrics.",
    "grafana.json": "A dashboard for Grafana over these metrics.",
}


class Signals:
    """The parts of a server that run schedules, count and tell, and their routes.

    Args:
        explain: returns the way out of an error of some flows, for alerts.
    """

    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._schedules: Schedules | None = None
        self._metrics: Metrics | None = None
        self._alerts: Alerts | None = None
        self._lags: Lags | None = None

    @property
    def parts(self) -> tuple[Callable[[Server], Part], ...]:
        """What makes the parts of a server."""
        return (self._make_lags, self._make_schedules, self._make_metrics, self._make_alerts, Restarts)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(method="GET", path="/schedules", role=Role.VIEW, handler=self._list,
                  summary="The schedules of all pipelines, with their next runs and their last one."),
            Route(method="POST", path=f"{_SCHEDULE}/pause", role=Role.OPERATE, handler=self._pause, fields=("reason",),
                  summary="Start no run of a schedule until it is resumed."),
            Route(method="POST", path=f"{_SCHEDULE}/resume", role=Role.OPERATE, handler=self._resume,
                  fields=("reason",), summary="Start the runs of a schedule again, from the next time on."),
            Route(method="POST", path=f"{_SCHEDULE}/run", role=Role.OPERATE, handler=self._run, status=202,
                  fields=("reason",),
                  summary="Start an update with the selections of a schedule now."),
            Route(method="GET", path="/pipelines/{pipeline}/lag", role=Role.VIEW, handler=self._lag,
                  summary="How far the flows of a pipeline are behind, measured without Spark; null is unknown."),
            Route(method="GET", path="/alerts", role=Role.VIEW, handler=self._told,
                  summary="The alerts of all pipelines, newest first, and their channels."),
            Route(method="GET", path="/metrics", role=Role.VIEW, handler=self._exposed,
                  summary="The metrics of the server and its pipelines, as text for Prometheus."),
            *(Route(method="GET", path=f"/metrics/{name}", role=Role.VIEW, handler=partial(_file, name),
                    summary=summary) for name, summary in _FILES.items()),
        )  # fmt: skip

    def _make_schedules(self, server: Server) -> Part:
        self._schedules = Schedules(server)
        return self._schedules

    def _make_lags(self, server: Server) -> Part:
        self._lags = Lags(server)
        return self._lags

    def _make_metrics(self, server: Server) -> Part:
        assert self._lags is not None, "it is made before"
        self._metrics = Metrics(server, self._lags)
        return self._metrics

    def _make_alerts(self, server: Server) -> Part:
        assert self._lags is not None, "it is made before"
        self._alerts = Alerts(server, self._explain, self._lags)
        return self._alerts

    def _lag(self, call: Call) -> dict[str, Any]:
        call.only()
        assert self._lags is not None, "the server makes its parts before it answers"
        return self._lags.of(call.pipeline()).to_json()

    def _told(self, call: Call) -> dict[str, Any]:
        call.only()
        part, entries = self._alerts, call.pipelines()
        assert part is not None, "the server makes its parts before it answers"
        alerts = [
            alert_json(entry, each.trouble, each.since, each.recovered_at)
            for entry in entries
            for each in part.episodes(entry)
        ]
        channels = [
            {"name": each.name, "kind": "mail" if each.webhook is None else "webhook", "target": each.target,
             "pipeline": entry.name, "on": sorted(each.kinds)}
            for entry in entries
            for each in part.settings(entry).channels
        ]  # fmt: skip
        newest = sorted(alerts, key=lambda each: str(each["at"]), reverse=True)
        return {"alerts": newest[:_MOST_ALERTS], "channels": channels, "faults": _faults(entries, part.faults)}

    def _exposed(self, call: Call) -> Response:
        call.only()
        assert self._metrics is not None, "the server makes its parts before it answers"
        sample = self._metrics.sample(call.pipelines(), with_server=not call.caller.pipelines)
        return Response(hide_known(metrics_text(lambda: sample).decode()), media_type=CONTENT_TYPE)

    def _list(self, call: Call) -> dict[str, Any]:
        call.only()
        part, entries = self._part(), call.pipelines()
        rows = [
            {**_json(entry, row), "unseen": list(unseen_sources(row, entry.name, entry.storage))}
            for entry in entries
            for row in part.rows(entry)
        ]
        return {"schedules": rows, "faults": _faults(entries, part.faults)}

    def _pause(self, call: Call) -> dict[str, Any]:
        entry, row = self._named(call)
        clock, reason = call.server.clock, call.reason()
        paused = pause_schedule(entry.spec, entry.storage, clock, row.schedule.name, reason, user=call.caller.user)
        return _changed(call, entry, paused)

    def _resume(self, call: Call) -> dict[str, Any]:
        entry, row = self._named(call)
        call.reason()
        return _changed(call, entry, resume_schedule(entry.spec, entry.storage, call.server.clock, row.schedule.name))

    def _run(self, call: Call) -> dict[str, Any]:
        entry, row = self._named(call)
        reason = call.reason()
        ours = {"reason": reason} if reason else {}
        return asdict_shallow(start_update(call, entry, {**selections(row.schedule), "sluice": ours}))

    def _named(self, call: Call) -> tuple[PipelineEntry, ScheduleRow]:
        part, wanted = self._part(), call.path["schedule"]
        for entry in call.pipelines():
            for row in part.rows(entry):
                if schedule_id(entry, row.schedule.name) == wanted:
                    return entry, row
        raise not_found(f"The schedule {shortened(wanted)!r} does not exist.")

    def _part(self) -> Schedules:
        assert self._schedules is not None, "the server makes its parts before it answers"
        return self._schedules


def _changed(call: Call, entry: PipelineEntry, row: ScheduleRow) -> dict[str, Any]:
    """Tell the pages that a schedule and its pipeline's next run have changed, and return the schedule."""
    changed = {"pipeline_id": entry.pipeline_id, "schedule": schedule_id(entry, row.schedule.name), "kind": "changed"}
    call.server.hub.publish([HOME, entry.pipeline_id], "schedule", {**changed, "fire": None, "text": ""})
    call.server.hub.publish([HOME, entry.pipeline_id], "pipeline", call.server.row(entry).to_json())
    return _json(entry, row)


def _json(entry: PipelineEntry, row: ScheduleRow) -> dict[str, Any]:
    return {
        **schedule_json(row), "schedule": schedule_id(entry, row.schedule.name), "name": row.schedule.name,
        "pipeline_id": entry.pipeline_id, "pipeline": entry.name,
    }  # fmt: skip


def _faults(entries: Sequence[PipelineEntry], faults: Mapping[str, SluiceError]) -> list[dict[str, Any]]:
    """Return the faults of the pipelines that the caller sees."""
    found = [(entry, faults[entry.pipeline_id]) for entry in entries if entry.pipeline_id in faults]
    return [
        {
            "pipeline": entry.name,
            "condition": error.condition,
            "what": error.render().removeprefix(f"[{error.condition}] "),
            "remedy": error.remedy,
        }
        for entry, error in found
    ]


def _file(name: str, call: Call) -> Response:
    call.only()
    return FileResponse(Path(metrics_package.__path__[0], name))
