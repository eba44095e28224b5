"""Routing of calls to their handlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framework.testing.workspace.exchange import Request

Handler = Callable[[Request], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method, a path pattern with named placeholders, and the handler."""

    method: str
    pattern: re.Pattern[str]
    handler: Handler


class Routes:
    """Routes in order of precedence."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._routes = [_route(text, handler) for text, handler in handlers.items()]

    def find(self, method: str, path: str) -> tuple[Handler, Mapping[str, str]] | None:
        """Return the handler of a call and the values of the path's placeholders; None without a route."""
        for route in self._routes:
            match = route.pattern.fullmatch(path)
            if match is not None and route.method == method:
                return route.handler, match.groupdict()
        return None


def _route(text: str, handler: Handler) -> Route:
    """Parse a route such as `GET /api/V/…/{name}`; `V` matches any version of the API."""
    method, _, path = text.partition(" ")
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)).replace("/api/V/", r"/api/\d\.\d/")
    return Route(method=method, pattern=re.compile(pattern), handler=handler)
