"""Routes of tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from framework.foundation.nearest import nearest_hint
from framework.server.access.roles import Role
from framework.server.web.faults import WebFault, invalid, shortened
from framework.server.web.routes import Call, Route

_MOST_DAYS = 3_650


def _check_wide(call: Call) -> None:
    """Check that the caller sees all pipelines: tokens are for all of them.

    Raises:
        WebFault: 403.
    """
    if call.caller.pipelines:
        raise WebFault(403, "PERMISSION_DENIED", f"{call.caller.user} sees some pipelines only, and grants nothing.")


def _list(call: Call) -> dict[str, Any]:
    _check_wide(call)
    return {"tokens": [each.to_json() for each in call.server.tokens.list_all()]}


def _create(call: Call) -> dict[str, Any]:
    _check_wide(call)
    name, role, days = call.body.get("name"), call.body.get("role"), call.body.get("days")
    pipelines = call.body.get("pipelines")
    if not isinstance(name, str) or role not in set(Role):
        raise invalid(f"A token has a name, and a role: {', '.join(Role)}.")
    if days is not None and (type(days) is not int or not 1 <= days <= _MOST_DAYS):
        raise invalid(f"days must be a number from 1 to {_MOST_DAYS:,}.")
    if pipelines is not None:
        _check_names(call, pipelines)
    after = None if days is None else timedelta(days=days)
    stored, text = call.server.tokens.create(name, Role(role), pipelines=pipelines, expires_after=after)
    return {**stored.to_json(), "token": text}


def _check_names(call: Call, pipelines: object) -> None:
    """Check that a list of pipelines has only those that the server has.

    Raises:
        WebFault: 400.
    """
    if not isinstance(pipelines, list) or not all(isinstance(each, str) for each in pipelines):
        raise invalid("pipelines must be a list of names.")
    known = [each.name for each in call.server.pipelines()]
    unknown = next((each for each in pipelines if each.strip() and each not in known), None)
    if unknown is not None:
        raise invalid(f"This server has no pipeline {shortened(unknown)!r}.{nearest_hint(unknown, known)}")


def _revoke(call: Call) -> dict[str, Any]:
    _check_wide(call)
    return call.server.tokens.revoke(call.path["token"]).to_json()


ACCESS_ROUTES = (
    Route(method="GET", path="/tokens", role=Role.MANAGE, handler=_list, summary="All tokens, without their texts."),
    Route(method="POST", path="/tokens", role=Role.MANAGE, handler=_create, status=201,
          fields=("name", "role", "days", "pipelines"),
          summary="Create a token; its text is in this answer only."),
    Route(method="DELETE", path="/tokens/{token}", role=Role.MANAGE, handler=_revoke, summary="Revoke a token."),
)  # fmt: skip
"""The routes of tokens."""
