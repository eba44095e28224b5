"""Routes of updates: requests with their attempts, one update, its board and output, the grid, start and stop."""

from __future__ import annotations

from typing import Any

from framework.server.access.roles import Role
from framework.server.reading.spans import flow_spans, planned
from framework.server.values import asdict_shallow
from framework.server.web.faults import invalid, not_found, shortened
from framework.server.web.routes import Call, Route
from framework.server.web.updates import start_update, update_of
from framework.views.flow_board import FlowBoard
from framework.views.stopping import stop_json

_PIPELINE = "/pipelines/{pipeline}"
_UPDATE = f"{_PIPELINE}/updates/{{update}}"


def _updates(call: Call) -> dict[str, Any]:
    limit, before = call.number("limit", default=50, most=200), call.query.get("before")
    requests = list(call.server.reader(call.pipeline()).requests)
    if before is not None:
        places = [place for place, each in enumerate(requests) if each.request_id == before]
        if not places:
            raise not_found(f"The request {shortened(before)!r} does not exist.")
        requests = requests[places[0] + 1 :]
    shown = requests[:limit]
    more = shown[-1].request_id if len(requests) > limit else None
    return {"requests": [each.to_json() for each in shown], "before": more}


def _update(call: Call) -> dict[str, Any]:
    entry = call.pipeline()
    row, reader = update_of(call, entry), call.server.reader(entry)
    events = reader.events_of(row.update_id)
    request = next(each for each in reader.requests if each.request_id == row.request_id)
    return {
        **row.to_json(),
        "request": request.to_json(),
        "flows": flow_spans(events, call.server.clock.now()),
        "plan": planned(events),
        "options": {name: list(value) if isinstance(value, tuple) else value for name, value in
                    asdict_shallow(row.options).items()},
    }  # fmt: skip


def _board(call: Call) -> dict[str, Any]:
    entry = call.pipeline()
    row = update_of(call, entry)
    return call.server.reader(entry).board(row.update_id).to_json(call.server.clock.now())


def _log(call: Call) -> dict[str, Any]:
    entry = call.pipeline()
    row = update_of(call, entry)
    found = call.server.reader(entry).records.log_text(row.update_id)
    if found is None:
        raise not_found("This server has no output of that update: another program started it.")
    return {"text": found[0], "is_cut": found[1]}


def _grid(call: Call) -> dict[str, Any]:
    entry, limit = call.pipeline(), call.number("limit", default=50, most=200)
    reader, now = call.server.reader(entry), call.server.clock.now()
    rows = reader.rows[-limit:]
    boards = [FlowBoard.to_json(reader.kept_board(each), now)["flows"] for each in rows]
    flows = list(dict.fromkeys(flow["flow"] for board in boards for flow in board))
    by_flow = [{flow["flow"]: flow for flow in board} for board in boards]
    return {
        "updates": [each.to_json() for each in rows],
        "flows": flows,
        "cells": [[_cell(board.get(flow)) for board in by_flow] for flow in flows],
    }


def _cell(flow: dict[str, Any] | None) -> dict[str, Any] | None:
    if flow is None:
        return None
    return {"state": flow["state"], "seconds": flow["seconds"], "rows": flow["rows_written"], "reason": flow["reason"]}


def _start(call: Call) -> dict[str, Any]:
    return asdict_shallow(start_update(call, call.pipeline(), call.body))


def _stop(call: Call) -> dict[str, Any]:
    entry = call.pipeline()
    update_id, reason = call.body.get("update_id"), call.reason() or None
    if not isinstance(update_id, str | None):
        raise invalid("update_id must be a text.")
    if update_id is not None and call.server.reader(entry).row(update_id) is None:
        raise not_found(f"The update {shortened(update_id)!r} does not exist.")
    report = call.server.starter.stop(entry, update_id=update_id, user=call.caller.user, reason=reason)
    call.server.look_at(entry)
    return stop_json(entry.name, report)


UPDATE_ROUTES = (
    Route(method="GET", path=f"{_PIPELINE}/updates", role=Role.VIEW, handler=_updates, query=("limit", "before"),
          summary="Requests with their attempts, newest first."),
    Route(method="POST", path=f"{_PIPELINE}/updates", role=Role.OPERATE, handler=_start, status=202,
          fields=None,
          summary="Start an update."),
    Route(method="GET", path=_UPDATE, role=Role.VIEW, handler=_update, summary="One update with its flows and plan."),
    Route(method="GET", path=f"{_UPDATE}/board", role=Role.VIEW, handler=_board, summary="The flow board."),
    Route(method="GET", path=f"{_UPDATE}/log", role=Role.READ, handler=_log, summary="The output of its process."),
    Route(method="GET", path=f"{_PIPELINE}/grid", role=Role.VIEW, handler=_grid, query=("limit",),
          summary="The outcome of each flow in each of the last updates."),
    Route(method="POST", path=f"{_PIPELINE}/stop", role=Role.OPERATE, handler=_stop, status=202,
          fields=("reason", "update_id"),
          summary="Stop the update that runs, or one that waits."),
)  # fmt: skip
"""The routes of updates."""
