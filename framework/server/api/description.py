"""The description of the API, OpenAPI 3.1, made from its routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from framework.server.access.roles import Role
from framework.server.web.routes import Access, Call, Route

_PARAMETER = re.compile(r"\{(\w+)\}")
_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": {"type": "string"},
        "message": {"type": "string"},
        "details": {"type": "array", "items": {"type": "object"}},
    },
}


def description_route(routes: Sequence[Route]) -> Route:
    """Return the route that describes the others."""

    def describe(call: Call) -> dict[str, Any]:
        """Return the description."""
        return description((*routes, found), call.server.settings.version)

    found = Route(
        method="GET", path="/openapi.json", role=Role.VIEW, handler=describe, summary="This description."
    )  # fmt: skip
    return found


def description(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the OpenAPI description of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.full_path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sluice", "version": version},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    named = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
             for name in _PARAMETER.findall(route.full_path)]  # fmt: skip
    asked = [{"name": name, "in": "query", "required": False, "schema": {"type": "string"}} for name in route.query]
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    kind = "text/event-stream" if route.path == "/stream" else "application/json"
    content = {kind: {"schema": {"type": "string" if "event" in kind else "object"}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": [*named, *asked],
        "x-sluice-role": str(route.role),
        "responses": {
            str(route.status): {"description": "The answer.", "content": content},
            "default": {"description": "An error.", **error},
        },
    }
    if route.method in {"POST", "PUT", "PATCH"}:
        operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    if isinstance(route.role, Access):
        operation["security"] = []
    return operation
