"""What both faces do with updates: find the one that a path names, and start one for a caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.server.engines.start_request import StartRequest
from framework.server.engines.starter import Accepted
from framework.server.pipelines import PipelineEntry
from framework.server.values import UpdateRow
from framework.server.web.faults import invalid, not_found
from framework.server.web.routes import Call


def update_of(call: Call, entry: PipelineEntry) -> UpdateRow:
    """Return the update that the path names.

    Raises:
        WebFault: 404.
    """
    row = call.server.reader(entry).row(call.path["update"])
    if row is None:
        raise not_found(f"The update {call.path['update']!r} of {entry.name} does not exist.")
    return row


def start_update(call: Call, entry: PipelineEntry, body: Mapping[str, Any]) -> Accepted:
    """Start an update of a pipeline for the caller.

    Raises:
        WebFault: 400.
    """
    key = call.request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise invalid("Idempotency-Key must have 1 to 200 characters.")
    cause = "USER_ACTION" if call.caller.via == "session" else "API_CALL"
    accepted = call.server.starter.request(entry, StartRequest(body=body, user=call.caller.user, cause=cause, key=key))
    call.server.look_at(entry)
    return accepted
