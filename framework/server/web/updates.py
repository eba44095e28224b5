"""What both faces do with updates: find the one that a path names, and start one for a caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.server.engines.start_request import StartRequest
from framework.server.engines.starter import Accepted
from framework.server.pipelines import PipelineEntry
from framework.server.values import UpdateRow
from framework.server.web.faults import invalid, not_found, shortened
from framework.server.web.routes import Call

_LONGEST_KEY = 200


def update_of(call: Call, entry: PipelineEntry) -> UpdateRow:
    """Return the update that the path names.

    Raises:
        WebFault: 404.
    """
    row = call.server.reader(entry).row(call.path["update"])
    if row is None:
        raise not_found(f"The update {shortened(call.path['update'])!r} of {entry.name} does not exist.")
    return row


def start_update(call: Call, entry: PipelineEntry, body: Mapping[str, Any]) -> Accepted:
    """Start an update of a pipeline for the caller.

    Raises:
        WebFault: 400.
    """
    key = call.request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= _LONGEST_KEY:
        raise invalid(f"Idempotency-Key must have 1 to {_LONGEST_KEY} characters.")
    cause = "USER_ACTION" if call.caller.via in {"session", "proxy"} else "API_CALL"
    own = None if key is None else own_key(call, key)
    request = StartRequest(body=body, user=call.caller.user, cause=cause, key=own, is_compared=True)
    accepted = call.server.starter.request(entry, request)
    call.server.look_at(entry)
    return accepted


def own_key(call: Call, key: str, route: str | None = None) -> str:
    """Return the key of a request among all keys: callers and routes choose theirs without knowing of each other.

    A person who signs in again is the same caller; a token that replaces a revoked one is another.
    """
    caller = call.caller
    return json.dumps([route or call.route, caller.via, caller.token or caller.user, key])
