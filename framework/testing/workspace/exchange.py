"""HTTP messages of the stand-in: requests, and the service's error responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request without its headers, so that the record of requests contains no token.

    Args:
        parameters: values of the path's placeholders, once a route is found.
        status: HTTP status of the response; 0 before the response or if the connection was cut.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    user: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    status: int = 0

    @property
    def is_write(self) -> bool:
        """Whether the request is a write; a SQL query counts as a read."""
        if self.path == "/api/2.0/sql/statements":
            return not str(self.body.get("statement", "")).lstrip().upper().startswith("SELECT")
        return self.method != "GET"


class ServiceFault(Exception):  # noqa: N818 - a response of the service, not an error of the test
    """An error response in the service's format."""

    def __init__(self, status: int, error_code: str, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def missing(kind: str, name: object) -> ServiceFault:
    """Return a 404 for an object that does not exist."""
    return ServiceFault(404, "RESOURCE_DOES_NOT_EXIST", f"{kind} {name} does not exist.")


def invalid(message: str) -> ServiceFault:
    """Return a 400 for an invalid request."""
    return ServiceFault(400, "INVALID_PARAMETER_VALUE", message)


def run_as_of(settings: Mapping[str, Any], former: str) -> str:
    """Return the identity that a job or a pipeline runs as; the former one if the settings have no `run_as`."""
    identity = settings.get("run_as") or {}
    return str(identity.get("user_name") or identity.get("service_principal_name") or former)


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
