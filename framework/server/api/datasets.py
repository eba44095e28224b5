"""Routes of what a pipeline has: its graph, its datasets, their versions and quality, and its events."""

from __future__ import annotations

from typing import Any

from framework.foundation.clock import timestamp_text
from framework.foundation.errors import UserError
from framework.foundation.nearest import is_named, plain_name
from framework.graph.stored_graph import GraphStore
from framework.record.events import Event, EventLevel, EventType
from framework.server.access.roles import Role
from framework.server.pipelines import PipelineEntry
from framework.server.reading.delta_versions import delta_versions
from framework.server.reading.event_search import EventSearch
from framework.server.reading.graph_layout import GraphLayouts
from framework.server.reading.spans import quality_points
from framework.server.web.faults import invalid, not_found, shortened
from framework.server.web.routes import Call, Route
from framework.views.events import events_json
from framework.views.flow_board import FlowBoard
from framework.views.graph import graph_json
from framework.views.stored_graph import stored_graph

_PIPELINE = "/pipelines/{pipeline}"
_FILTERS = ("limit", "before", "level", "type", "dataset", "flow", "update_id", "text")
_QUALITY_UPDATES = 30


def dataset_routes() -> tuple[Route, ...]:
    """Return the routes; they share the layouts of graphs."""
    layouts = GraphLayouts()

    def graph(call: Call) -> dict[str, Any]:
        """Return the stored graph, its layout, and the state of each flow in the newest update."""
        entry = call.pipeline()
        return {**layouts.of(entry), "states": _states(call, entry)}

    return (
        Route(method="GET", path=f"{_PIPELINE}/graph", role=Role.VIEW, handler=graph,
              summary="The graph with its layout and the states of its flows."),
        Route(method="GET", path=f"{_PIPELINE}/events", role=Role.VIEW, handler=_events, query=_FILTERS,
              summary="Events, page by page backwards from the newest."),
        Route(method="GET", path=f"{_PIPELINE}/datasets", role=Role.VIEW, handler=_datasets, summary="All datasets."),
        Route(method="GET", path=f"{_PIPELINE}/datasets/{{dataset}}", role=Role.VIEW, handler=_dataset,
              summary="One dataset with its flows, versions and quality."),
    )  # fmt: skip


def _newest_board(call: Call, entry: PipelineEntry) -> FlowBoard:
    reader = call.server.reader(entry)
    newest = next((each for each in reversed(reader.rows) if each.state != "WAITING_FOR_RESOURCES"), None)
    return FlowBoard() if newest is None else reader.kept_board(newest)


def _states(call: Call, entry: PipelineEntry) -> dict[str, dict[str, Any]]:
    board = _newest_board(call, entry).to_json(call.server.clock.now())
    return {flow["flow"]: flow for flow in board["flows"]}


def _written_at(call: Call, entry: PipelineEntry) -> dict[str, str]:
    """Return when a flow of each dataset last completed in the newest update that ran."""
    found: dict[str, str] = {}
    for flow in _newest_board(call, entry).flows:
        if flow.state == "COMPLETED" and flow.ended_at is not None:
            found[flow.dataset] = max(found.get(flow.dataset, ""), timestamp_text(flow.ended_at))
    return found


def _events(call: Call) -> dict[str, Any]:
    query, limit = call.query, call.number("limit", default=200, most=1_000)
    level, kind = query.get("level"), query.get("type")
    if level is not None and level.upper() not in set(EventLevel):
        raise invalid(f"level must be one of {', '.join(EventLevel)}.")
    if kind is not None and kind not in set(EventType):
        raise invalid(f"type must be one of {', '.join(EventType)}.")
    dataset, flow, text = query.get("dataset"), query.get("flow"), (query.get("text") or "").lower()

    def matches(event: Event) -> bool:
        is_of_flow = flow is None or is_named(event.origin.flow_name or "", plain_name(flow))
        return is_of_flow and text in _searched(event)

    search = EventSearch(
        type=kind, level=None if level is None else level.upper(), update_id=query.get("update_id"),
        dataset=None if dataset is None else plain_name(dataset), matches=matches if flow or text else None,
    )  # fmt: skip
    page = search.page(call.pipeline(), call.server.settings.cache, before=query.get("before"), limit=limit)
    return {"events": events_json(page.events), "before": page.before}


def _searched(event: Event) -> str:
    error = "" if event.error is None else " ".join(each.message for each in event.error.exceptions)
    return f"{event.message} {event.origin.dataset_name or ''} {event.origin.flow_name or ''} {error}".lower()


def _datasets(call: Call) -> dict[str, Any]:
    entry = call.pipeline()
    content, states = graph_json(stored_graph(entry.storage, entry.name)), _states(call, entry)
    written = _written_at(call, entry)
    return {
        "datasets": [
            {**_row(each, content["flows"], states), "updated_at": written.get(each["name"])}
            for each in content["datasets"]
        ]
    }


def _row(dataset: dict[str, Any], flows: list[dict[str, Any]], states: dict[str, dict[str, Any]]) -> dict[str, Any]:
    names = [flow["name"] for flow in flows if flow["target"] == dataset["name"]]
    mine = [states[name] for name in names if name in states]
    written = [each["rows_written"] for each in mine if each["rows_written"] is not None]
    return {
        "name": dataset["name"],
        "kind": dataset["kind"],
        "private": dataset["private"],
        "comment": dataset["comment"],
        "columns": None if dataset["schema"] is None else len(dataset["schema"].get("fields", ())),
        "expectations": len(dataset["expectations"]),
        "flows": names,
        "state": mine[0]["state"] if mine else None,
        "rows_written": sum(written) if written else None,
    }


def _dataset(call: Call) -> dict[str, Any]:
    entry, name = call.pipeline(), plain_name(call.path["dataset"])
    store = GraphStore(entry.storage, entry.name)
    stored = store.read()
    if stored is None:
        raise UserError("GRAPH_NOT_STORED", pipeline=entry.name, path=store.path)
    content = graph_json(stored.graph)
    found = [each for each in content["datasets"] if is_named(each["name"], name)]
    if len(found) != 1:
        raise not_found(f"The dataset {shortened(call.path['dataset'])!r} of {entry.name} does not exist.")
    dataset = found[0]
    folder = next((path for each, path in stored.folders.items() if str(each) == dataset["name"]), None)
    flows = [flow for flow in content["flows"] if flow["target"] == dataset["name"]]
    return {
        **dataset,
        "flows": flows,
        "reads": list(dict.fromkeys(read["name"] for flow in flows for read in flow["reads"])),
        "read_by": list(dict.fromkeys(
            flow["target"] for flow in content["flows"] if dataset["name"] in {read["name"] for read in flow["reads"]}
        )),
        "folder": folder,
        "versions": delta_versions(folder),
        "quality": _quality(call, entry, dataset),
    }  # fmt: skip


def _quality(call: Call, entry: PipelineEntry, dataset: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the counts of each expectation in the last updates, as the event log has them."""
    if not dataset["expectations"]:
        return []
    reader = call.server.reader(entry)
    points: dict[str, list[dict[str, Any]]] = {each["name"]: [] for each in dataset["expectations"]}
    for row in reader.rows[-_QUALITY_UPDATES:]:
        for name, point in quality_points(reader.events_of(row.update_id), dataset["name"]).items():
            if name in points:
                points[name].append({"update_id": row.update_id, **point})
    return [
        {"expectation": each["name"], "action": each["action"], "points": points[each["name"]]}
        for each in dataset["expectations"]
    ]
