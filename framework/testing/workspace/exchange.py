"""What goes over the wire: a request, an answer, and a fault that the service answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call as the service saw it, without its headers: a record of requests holds no token.

    Args:
        parameters: what the path's placeholders stand for, once a route is found.
        status: the HTTP status that was answered; 0 while it is open or when the line was cut.
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
        """Whether it may change something; a SQL query counts as a read."""
        if self.path == "/api/2.0/sql/statements":
            return not str(self.body.get("statement", "")).lstrip().upper().startswith("SELECT")
        return self.method != "GET"


class ServiceFault(Exception):  # noqa: N818 - it is an answer of the service, no error of ours
    """An answer that is no success, in the service's own shape."""

    def __init__(self, status: int, error_code: str, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def missing(kind: str, name: object) -> ServiceFault:
    """404 for something that is not there."""
    return ServiceFault(404, "RESOURCE_DOES_NOT_EXIST", f"{kind} {name} does not exist.")


def invalid(message: str) -> ServiceFault:
    """400 for a request that the service does not take."""
    return ServiceFault(400, "INVALID_PARAMETER_VALUE", message)


def run_as_of(settings: Mapping[str, Any], former: str) -> str:
    """Who a job or a pipeline runs as; settings that don't say leave it as it was."""
    identity = settings.get("run_as") or {}
    return str(identity.get("user_name") or identity.get("service_principal_name") or former)
