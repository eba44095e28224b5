"""Databricks' routes of pipelines: list, get, start, stop, updates, events and permissions."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from framework.record.events import Event
from framework.record.reader import read_events
from framework.server.access.roles import Role
from framework.server.databricks import shapes
from framework.server.databricks.event_filter import EventFilter, parse_filter
from framework.server.pipelines import PipelineEntry
from framework.server.reading.event_search import EventSearch
from framework.server.web.faults import invalid, not_found, not_implemented, shortened
from framework.server.web.routes import Call, Route
from framework.server.web.updates import start_update, update_of

_ROOT = "/api/2.0/pipelines"
_PIPELINE = f"{_ROOT}/{{pipeline}}"
_PERMISSIONS = "/api/2.0/permissions/pipelines/{pipeline}"
_NAME_LIKE = re.compile(r"\s*name\s+like\s+'([^']*)'\s*", re.IGNORECASE)
_LEVELS = {Role.VIEW: "CAN_VIEW", Role.READ: "CAN_VIEW", Role.OPERATE: "CAN_RUN", Role.MANAGE: "CAN_MANAGE"}
_MOST_EVENTS = 250
_Item = TypeVar("_Item")


def _list(call: Call) -> dict[str, Any]:
    wanted, found = call.query.get("filter"), list(call.pipelines())
    if wanted:
        like = _NAME_LIKE.fullmatch(wanted)
        if like is None:
            raise invalid("The filter is not supported. Supported: name LIKE '%text%'.")
        found = [each for each in found if _is_like(each.name, like[1])]
    for order in reversed(call.query.getlist("order_by")):
        field, _, direction = order.lower().partition(" ")
        if field not in {"name", "id"} or direction not in {"", "asc", "desc"}:
            raise invalid("order_by is `name` or `id`, with `asc` or `desc`.")
        found.sort(key=lambda each: each.name if field == "name" else each.pipeline_id, reverse=direction == "desc")
    page, token = _page(call, found, most=100, default=25)
    return {"statuses": [shapes.status(call.server, each) for each in page], **token}


def _is_like(name: str, pattern: str) -> bool:
    """Whether a name is like a pattern of SQL: `%` is any text and `_` one character.

    A regular expression could take for ever, because a pattern may have any length.

    Examples:
        >>> _is_like("shop", "s%p"), _is_like("shop", "%h"), _is_like("shop", "s_o%"), _is_like("shop", "shop_")
        (True, False, True, False)
    """
    first, *rest = pattern.split("%")
    if len(pattern) - len(rest) > len(name):
        return False
    if not rest:
        return len(name) == len(pattern) and _fits(name, pattern, 0)
    *middle, last = rest
    end = len(name) - len(last)
    if not _fits(name, first, 0) or not _fits(name, last, end):
        return False
    place = len(first)
    for part in middle:
        found = next((each for each in range(place, end - len(part) + 1) if _fits(name, part, each)), None)
        if found is None:
            return False
        place = found + len(part)
    return True


def _fits(name: str, part: str, place: int) -> bool:
    """Whether a part of a pattern, without `%`, fits a name at a place."""
    there = name[place : place + len(part)]
    return there == part or all(wanted in ("_", found) for wanted, found in zip(part, there, strict=True))


def _get(call: Call) -> dict[str, Any]:
    return shapes.pipeline(call.server, _by_id(call))


def _start(call: Call) -> dict[str, Any]:
    if "rewind_spec" in call.body:
        raise not_implemented("This server does not rewind yet: use `sluice rewind`.")
    return {"update_id": start_update(call, _by_id(call), call.body).update_id}


def _stop(call: Call) -> dict[str, Any]:
    entry = _by_id(call)
    call.server.starter.stop(entry, user=call.caller.user)
    call.server.look_at(entry)
    return {}


def _updates(call: Call) -> dict[str, Any]:
    rows = list(reversed(call.server.reader(_by_id(call)).rows))
    until = call.query.get("until_update_id")
    if until is not None:
        places = [place for place, row in enumerate(rows) if row.update_id == until]
        if not places:
            raise not_found(f"The update {shortened(until)!r} does not exist.")
        rows = rows[: places[0] + 1]
    page, token = _page(call, rows, most=100, default=25)
    return {"updates": [shapes.update(row) for row in page], **token}


def _update(call: Call) -> dict[str, Any]:
    entry = _by_id(call)
    config = shapes.pipeline(call.server, entry)["spec"]
    return {"update": {**shapes.update(update_of(call, entry)), "config": config}}


def _events(call: Call) -> dict[str, Any]:
    entry, limit = _by_id(call), call.number("max_results", default=25, most=_MOST_EVENTS)
    wanted, orders = parse_filter(call.query.get("filter") or ""), call.query.getlist("order_by")
    if orders not in ([], ["timestamp desc"], ["timestamp asc"], ["timestamp"]):
        raise invalid("order_by is `timestamp asc` or `timestamp desc`.")
    if orders in (["timestamp asc"], ["timestamp"]):
        found, token = _oldest_first(call, entry, wanted, limit)
    else:
        search = EventSearch(update_id=wanted.update_id, type=wanted.type, matches=wanted.matches)
        before = call.query.get("page_token")
        page = search.page(entry, call.server.settings.cache, before=before, limit=limit)
        found = list(reversed(page.events))
        token = {} if page.before is None else {"next_page_token": page.before}
    return {"events": [_event(entry, each) for each in found], **token}


def _oldest_first(
    call: Call, entry: PipelineEntry, wanted: EventFilter, limit: int
) -> tuple[list[Event], dict[str, str]]:
    """Return a page from the start of the log, which is read as a whole: clients rarely ask for this order."""
    events = read_events(entry.storage, type=wanted.type, update_id=wanted.update_id)
    mine = [event for event in events if event.origin.pipeline_name == entry.name]
    found = [event for event in mine if wanted.matches is None or wanted.matches(event)]
    first = _offset(call)
    more = {"next_page_token": str(first + limit)} if first + limit < len(found) else {}
    return found[first : first + limit], more


def _event(entry: PipelineEntry, event: Event) -> dict[str, Any]:
    """Return an event with the id of its pipeline by which the other routes know it."""
    row = event.to_row()
    return {**row, "origin": {**row["origin"], "pipeline_id": entry.pipeline_id}}


def _permissions(call: Call) -> dict[str, Any]:
    entry = _by_id(call)
    holders = [(call.server.settings.user, "IS_OWNER")]
    holders += [
        (each.name, _LEVELS[each.role])
        for each in call.server.tokens.list_all()
        if not each.pipelines or entry.name in each.pipelines
    ]
    return {
        "object_id": f"/pipelines/{entry.pipeline_id}",
        "object_type": "pipelines",
        "access_control_list": [
            {"user_name": name, "all_permissions": [{"permission_level": level, "inherited": False}]}
            for name, level in holders
        ],
    }


def _permission_levels(call: Call) -> dict[str, Any]:
    _by_id(call)
    words = {"CAN_VIEW": "See states and events", "CAN_RUN": "Start, stop and repair", "CAN_MANAGE": "Everything",
             "IS_OWNER": "Everything"}  # fmt: skip
    return {"permission_levels": [{"permission_level": each, "description": text} for each, text in words.items()]}


def _by_id(call: Call) -> PipelineEntry:
    """Return the pipeline with an id; unlike our own face, Databricks has no names here.

    Raises:
        WebFault: 404.
    """
    found = call.pipeline()
    if found.pipeline_id != call.path["pipeline"]:
        raise not_found(f"The pipeline {shortened(call.path['pipeline'])!r} does not exist.")
    return found


def _page(call: Call, found: list[_Item], *, most: int, default: int) -> tuple[list[_Item], dict[str, str]]:
    limit, first = call.number("max_results", default=default, most=most), _offset(call)
    token = {"next_page_token": str(first + limit)} if first + limit < len(found) else {}
    return found[first : first + limit], token


def _offset(call: Call) -> int:
    text = call.query.get("page_token") or "0"
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise invalid("page_token must be a token of an earlier answer.")
    return int(text)


def _unsupported(call: Call) -> Any:
    raise not_implemented(f"This server does not answer {call.request.method} {call.request.url.path}.")


def _me(call: Call) -> dict[str, Any]:
    return {"id": call.caller.token or call.caller.user, "userName": call.caller.user, "active": True}


PIPELINE_ROUTES = (
    Route(method="GET", path=_ROOT, role=Role.VIEW, handler=_list, summary="Pipelines.",
          query=("filter", "max_results", "order_by", "page_token")),
    Route(method="GET", path=_PIPELINE, role=Role.VIEW, handler=_get, summary="One pipeline."),
    Route(method="POST", path=f"{_PIPELINE}/updates", role=Role.OPERATE, handler=_start, fields=None,
          summary="Start an update."),
    Route(method="GET", path=f"{_PIPELINE}/updates", role=Role.VIEW, handler=_updates, summary="Updates, newest first.",
          query=("max_results", "page_token", "until_update_id")),
    Route(method="GET", path=f"{_PIPELINE}/updates/{{update}}", role=Role.VIEW, handler=_update, summary="One update."),
    Route(method="POST", path=f"{_PIPELINE}/stop", role=Role.OPERATE, handler=_stop, summary="Stop its update."),
    Route(method="GET", path=f"{_PIPELINE}/events", role=Role.VIEW, handler=_events, summary="Events, newest first.",
          query=("filter", "order_by", "max_results", "page_token")),
    Route(method="GET", path=_PERMISSIONS, role=Role.MANAGE, handler=_permissions, summary="Who may do what."),
    Route(method="GET", path=f"{_PERMISSIONS}/permissionLevels", role=Role.VIEW, handler=_permission_levels,
          summary="What may be granted."),
    *(
        Route(method=method, path=path, role=Role.MANAGE, handler=_unsupported, summary="Not supported.", status=501,
              fields=None)
        for method, path in (
            ("POST", _ROOT), ("PUT", _PIPELINE), ("DELETE", _PIPELINE), ("POST", f"{_PIPELINE}/clone"),
            ("POST", f"{_PIPELINE}/environment/apply"), ("PUT", _PERMISSIONS), ("PATCH", _PERMISSIONS),
        )
    ),
    Route(method="GET", path="/api/2.0/preview/scim/v2/Me", role=Role.VIEW, handler=_me, summary="Who asks."),
)  # fmt: skip
"""The routes of pipelines."""
