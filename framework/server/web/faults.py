"""Errors as answers: one shape for both faces, with the status that clients of Databricks expect."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from framework.foundation.errors import SluiceError, UserError
from framework.foundation.resource_faults import RESOURCE_CONDITIONS
from framework.foundation.secrets.known_secrets import hide_known

_CODES = {
    400: "INVALID_PARAMETER_VALUE", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "ENDPOINT_NOT_FOUND",
    405: "ENDPOINT_NOT_FOUND", 409: "RESOURCE_CONFLICT", 413: "REQUEST_TOO_LARGE", 415: "INVALID_PARAMETER_VALUE",
    421: "INVALID_PARAMETER_VALUE", 429: "REQUEST_LIMIT_EXCEEDED", 501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
}  # fmt: skip
_CONFLICTS = frozenset(
    {"UPDATE_ALREADY_RUNNING", "UPDATE_ID_USED", "SERVE_STORAGE_TAKEN", "SERVE_TOKEN_EXISTS", "SERVE_KEY_USED"}
)
_MISSING = frozenset({"GRAPH_NOT_STORED", "EVENT_NOT_FOUND", "UPDATE_NOT_FOUND", "SERVE_TOKEN_UNKNOWN"})
_UNAVAILABLE = ("STORAGE_NOT_", "STATE_NOT_", "STORED_F")
_LONGEST_ECHO = 200


class WebFault(Exception):  # noqa: N818 - it is an answer
    """An answer that is an error.

    Args:
        status: the HTTP status.
        code: Databricks' code.
        message: what is wrong, for people.
        condition: the condition of our catalogue; empty if there is none.
        remedy: what to do.
    """

    def __init__(self, status: int, code: str, message: str, *, condition: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.condition = condition
        self.remedy = remedy


def not_found(message: str) -> WebFault:
    """Return the answer for something that does not exist, or that the caller may not see."""
    return WebFault(404, "RESOURCE_DOES_NOT_EXIST", message)


def invalid(message: str) -> WebFault:
    """Return the answer for a wrong request."""
    return WebFault(400, "INVALID_PARAMETER_VALUE", message)


def not_implemented(message: str) -> WebFault:
    """Return the answer for what Databricks has and Sluice has not: never a good answer for what was ignored."""
    return WebFault(501, "NOT_IMPLEMENTED", message)


def shortened(text: str) -> str:
    """Return a text of a request for an answer, which need not be as long as the request."""
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"


def fault_of(error: SluiceError) -> WebFault:
    """Return the answer for an error of the house."""
    status, code = _status(error)
    return WebFault(status, code, error.what, condition=error.condition, remedy=error.remedy)


def fault_response(fault: WebFault) -> JSONResponse:
    """Return an error as a response; texts hide secrets."""
    details = [{"@type": "sluice", "condition": fault.condition, "remedy": hide_known(fault.remedy)}]
    content: dict[str, Any] = {
        "error_code": fault.code,
        "message": hide_known(fault.message),
        "details": details if fault.condition else [],
    }
    headers = {"Retry-After": "5"} if fault.status in {429, 503} else {}
    return JSONResponse(content, status_code=fault.status, headers=headers)


def code_of(status: int) -> str:
    """Return the code of a status that the framework decides."""
    return _CODES.get(status, "INTERNAL_ERROR")


def _status(error: SluiceError) -> tuple[int, str]:
    if error.condition == "SERVE_QUEUE_FULL":
        return 429, _CODES[429]
    if error.condition in _CONFLICTS:
        return 409, _CODES[409]
    if error.condition in _MISSING:
        return 404, "RESOURCE_DOES_NOT_EXIST"
    if error.condition.startswith(_UNAVAILABLE) or error.condition in RESOURCE_CONDITIONS:
        return 503, _CODES[503]
    return (400, _CODES[400]) if isinstance(error, UserError) else (500, "INTERNAL_ERROR")
