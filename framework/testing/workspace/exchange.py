"""HTTP messages of the stand-in: requests, and the service's error responses."""

from __future__ import annotations

from collections.abc import Mapping
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
