"""Alerts of the served pipelines: what is wrong is recorded at each look, and sent by a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from framework.declare.spec_secrets import secrets_of
from framework.foundation.errors import SluiceError
from framework.foundation.wording import seconds_text
from framework.operations.alerting.alert_file import AlertSettings, alert_file, read_alerts
from framework.operations.alerting.desk import AlertDesk
from framework.operations.alerting.episodes import AlertKind, Episode, Message, Trouble
from framework.operations.scheduling.state import ScheduleState, ScheduleStore
from framework.record.events import Event, EventType
from framework.recovery.flow_lag import FlowHealth
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.signals.files import FileTimes
from framework.server.signals.lags import Lags, lags_by_flow
from framework.server.stream import HOME
from framework.server.values import UpdateRow
from framework.sources.delta.source import COMMIT_LOST
from framework.views.flow_board import BAD, GOOD

Explain = Callable[[str, Sequence[str]], str]

_LOOK_SECONDS = 2.0
_LAG_SECONDS = 60.0
_READ = frozenset({FlowHealth.IDLE, FlowHealth.DONE})
_BROKEN = frozenset({"FAILED", "LOST"})


class _Watched:
    """What the events of a pipeline have said since the server started."""

    def __init__(self) -> None:
        self.behind: dict[str, float] = {}
        """The age of the oldest unread row of each flow of the running update."""
        self.quarantined: dict[str, int] = {}
        """The rows that the last run of each flow has set aside."""


class Alerts:
    """Watches all pipelines that have an `alerts.yml`; a part of the server.

    Args:
        server: the server.
        explain: returns the way out of an error of some flows.
        lags: measures how far flows are behind.
    """

    def __init__(self, server: Server, explain: Explain, lags: Lags) -> None:
        self._server = server
        self._lags = lags
        self._explain = explain
        self._files = FileTimes(alert_file, read_alerts)
        self._desks: dict[str, AlertDesk] = {}
        self._watched: dict[str, _Watched] = {}
        self._looked: float | None = None
        self._sending: threading.Thread | None = None
        self.faults: dict[str, SluiceError] = {}
        """Why the alerts of a pipeline can't be read or recorded, by its id."""

    def on_event(self, entry: PipelineEntry, event: Event) -> None:
        """Keep what an event says about unread and quarantined rows."""
        flow = event.origin.flow_name
        if event.event_type is EventType.CREATE_UPDATE:
            self._of(entry).behind.clear()
        if event.event_type is not EventType.FLOW_PROGRESS or flow is None:
            return
        details: Mapping[str, Any] = event.details.get(EventType.FLOW_PROGRESS.value, {})
        metrics, watched = details.get("metrics") or {}, self._of(entry)
        if metrics.get("backlog_seconds") is not None:
            watched.behind[flow] = float(metrics["backlog_seconds"])
        rows = metrics.get("num_quarantined_rows")
        if rows is not None or details.get("status") == "COMPLETED":
            is_total = details.get("status") in GOOD | BAD
            before = 0 if is_total else watched.quarantined.get(flow, 0)
            watched.quarantined[flow] = before + int(rows or 0)

    def look(self) -> None:
        """Record what is wrong, and send what is due."""
        now = self._server.clock.monotonic()
        if self._looked is not None and 0 <= now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        due = []
        for entry in self._server.pipelines():
            try:
                due += [(entry, settings) for settings in self._look_at(entry)]
            except SluiceError as error:  # of its storage, or its file: the others go on
                self.faults[entry.pipeline_id] = error
            else:
                self.faults.pop(entry.pipeline_id, None)
        if due and (self._sending is None or not self._sending.is_alive()):
            self._sending = threading.Thread(target=self._send, args=(due,), name="sluice-alerts", daemon=True)
            self._sending.start()

    def row_fields(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return no fields: a row has its own errors."""
        del entry
        return {}

    def settings(self, entry: PipelineEntry) -> AlertSettings:
        """Return the channels of a pipeline; none if they can't be read."""
        try:
            return self._files.read(entry.pipeline_id, entry.spec)
        except SluiceError as error:
            self.faults[entry.pipeline_id] = error
            return AlertSettings()

    def episodes(self, entry: PipelineEntry) -> tuple[Episode, ...]:
        """Return the episodes of a pipeline, newest first."""
        try:
            found = self._desk(entry).episodes
        except SluiceError as error:
            self.faults[entry.pipeline_id] = error
            return ()
        return tuple(sorted((*found.open, *found.over), key=lambda each: each.since, reverse=True))

    def _of(self, entry: PipelineEntry) -> _Watched:
        return self._watched.setdefault(entry.pipeline_id, _Watched())

    def _desk(self, entry: PipelineEntry) -> AlertDesk:
        if entry.pipeline_id not in self._desks:
            self._desks[entry.pipeline_id] = AlertDesk(entry.storage, entry.name, self._server.clock)
        return self._desks[entry.pipeline_id]

    def _look_at(self, entry: PipelineEntry) -> tuple[AlertSettings, ...]:
        """Record the troubles of a pipeline; return its settings if a message of it is due."""
        settings = self._files.read(entry.pipeline_id, entry.spec)
        state = self._server.reader(entry).state
        if not settings.channels or state.fault is not None or not self._server.starter.serves(entry):
            return ()
        runs, watched, desk = state.update is not None, self._of(entry), self._desk(entry)
        if not runs:
            watched.behind.clear()
        schedules = ScheduleStore(entry.storage, entry.name).read().states
        is_tried_again = runs or any(each.waiting and each.waiting.attempt > 1 for each in schedules.values())
        troubles = [
            *([] if is_tried_again else self._failures(entry, state.last)),
            *_missed(schedules),
            *_behind(watched, settings.behind_seconds),
            *_quarantined(watched),
            *self._losing(entry, settings.losing_seconds, runs=runs),
        ]
        lags = lags_by_flow(self._lags.want(entry, _LAG_SECONDS))

        def is_unknown(trouble: Trouble) -> bool:
            known: dict[AlertKind, Mapping[str, float]] = {
                AlertKind.BEHIND: watched.behind,
                AlertKind.QUARANTINED: watched.quarantined,
            }
            if trouble.kind is AlertKind.FAILED:
                return is_tried_again
            if trouble.kind is AlertKind.LOSING_DATA:
                flow = lags.get(trouble.subject)
                return flow is None or (flow.lost_in_seconds is None and flow.health not in _READ)
            return trouble.kind in known and trouble.subject not in known[trouble.kind]

        for message in desk.look(settings, troubles, is_unknown):
            self._publish(entry, message)
        return (settings,) if desk.due else ()

    def _failures(self, entry: PipelineEntry, last: UpdateRow | None) -> Iterator[Trouble]:
        if last is None or last.state not in _BROKEN:
            return
        board = self._server.reader(entry).kept_board(last)
        flows = [flow.flow for flow in board.flows if flow.state == "FAILED"]
        first = (last.error or "").strip().partition("\n")[0]
        named = f" in {', '.join(flows[:3])}{' and others' if len(flows) > 3 else ''}" if flows else ""
        text = f"Update {last.update_id} is {last.state}{named}." + (f" {first}" if first else "")
        yield Trouble(kind=AlertKind.FAILED, text=text, way=self._explain(first, flows))

    def _losing(self, entry: PipelineEntry, most: float, *, runs: bool) -> Iterator[Trouble]:
        """Yield the flows whose sources may soon delete what they have not read."""
        for name, flow in lags_by_flow(self._lags.want(entry, _LAG_SECONDS)).items():
            left = flow.lost_in_seconds
            if left is None or left >= most:
                continue
            when = f"in {seconds_text(left)}" if left else "now"
            text = f"The source of {name} may delete changes {when} that the flow has not read."
            if not left:
                way = self._explain(f"[{COMMIT_LOST}]", [name])
            elif flow.reason:
                way = self._explain(flow.reason, [name])
            else:
                way = f"`sluice doctor {name}` names the cause." if runs else "Start an update now: `sluice run`."
            yield Trouble(kind=AlertKind.LOSING_DATA, subject=name, text=text, way=way)

    def _send(self, due: list[tuple[PipelineEntry, AlertSettings]]) -> None:
        for entry, settings in due:
            secrets = secrets_of(entry.spec)
            file = None if (found := alert_file(entry.spec)) is None else str(found)

            def resolve(text: str, secrets: Any = secrets, file: str | None = file) -> str:
                return str(secrets.in_settings((("", text),), file)[0][1])

            try:
                self._desk(entry).deliver(settings, resolve)
            except SluiceError as error:
                self.faults[entry.pipeline_id] = error

    def _publish(self, entry: PipelineEntry, message: Message) -> None:
        payload = {"pipeline_id": entry.pipeline_id, **alert_json(entry, message.trouble, message.since)}
        payload["recovered_at"] = message.at if message.has_recovered else None
        self._server.hub.publish([HOME, entry.pipeline_id], "alert", payload)


def alert_json(entry: PipelineEntry, trouble: Trouble, since: str, recovered_at: str | None = None) -> dict[str, Any]:
    """Return an episode as JSON values."""
    return {
        "at": since, "kind": trouble.kind.value, "pipeline": entry.name, "subject": trouble.subject,
        "text": trouble.text, "way": trouble.way, "recovered_at": recovered_at,
    }  # fmt: skip


def _missed(schedules: Mapping[str, ScheduleState]) -> Iterator[Trouble]:
    for name, state in schedules.items():
        if state.last is not None and state.last.outcome == "MISSED":
            text = f"No server ran at {state.last.fire:%Y-%m-%d %H:%M:%S} UTC, a time of schedule {name}."
            way = "Keep `sluice serve` running, or start an update now: `sluice run`."
            yield Trouble(kind=AlertKind.SCHEDULE_MISSED, subject=name, text=text, way=way)


def _behind(watched: _Watched, most: float) -> Iterator[Trouble]:
    for flow, seconds in watched.behind.items():
        if seconds > most:
            text = f"The oldest unread row of {flow} is {seconds:,.0f} s old; the limit is {most:,.0f} s."
            yield Trouble(
                kind=AlertKind.BEHIND, subject=flow, text=text, way=f"`sluice doctor {flow}` names the cause."
            )


def _quarantined(watched: _Watched) -> Iterator[Trouble]:
    for flow, rows in watched.quarantined.items():
        if rows:
            text = f"The last run of {flow} has set {rows:,} row{'' if rows == 1 else 's'} aside."
            way = f"`sluice quarantine show {flow}` has them with their reasons."
            yield Trouble(kind=AlertKind.QUARANTINED, subject=flow, text=text, way=way)
