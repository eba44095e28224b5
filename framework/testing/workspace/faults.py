"""Fault rules: which calls fail, how often, how, and whether they take effect first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.testing.workspace.exchange import Request, ServiceFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault in place of the response to a call.

    Args:
        method: the HTTP method of matching calls; empty for any.
        path: a regular expression that is searched for in the path.
        times: number of calls that fail.
        skip: number of matching calls that succeed first.
        after_effect: whether the call takes effect before it fails.
        status: the HTTP status; 0 cuts the connection without a response, as a timeout does.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    skip: int = 0
    after_effect: bool = False
    status: int = 500
    error_code: str = "INTERNAL_ERROR"
    message: str = "A fault that the test injected."
    retry_after_seconds: int | None = None

    def matches(self, request: Request) -> bool:
        """Return whether a call matches."""
        return self.method in ("", request.method) and re.search(self.path, request.path) is not None

    def answer(self) -> ServiceFault:
        """Return the error response."""
        return ServiceFault(self.status, self.error_code, self.message, retry_after_seconds=self.retry_after_seconds)


def throttled(*, path: str = "", times: int = 1, retry_after_seconds: int = 3) -> Fault:
    """Make a 429 with the seconds to wait."""
    return Fault(
        path=path,
        times=times,
        status=429,
        error_code="REQUEST_LIMIT_EXCEEDED",
        message="Too many requests.",
        retry_after_seconds=retry_after_seconds,
    )


def lost_answer(*, method: str = "", path: str = "", times: int = 1, skip: int = 0) -> Fault:
    """Make a fault of a call that takes effect and whose response is lost."""
    return Fault(method=method, path=path, times=times, skip=skip, after_effect=True, status=0)


class FaultRules:
    """Pending faults with their remaining counts."""

    def __init__(self) -> None:
        self._waiting: list[list[int]] = []
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Add a fault for calls from now on."""
        self._faults.append(fault)
        self._waiting.append([fault.skip, fault.times])

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()
        self._waiting.clear()

    def due(self, request: Request) -> Fault | None:
        """Return the fault for a call and count it; None if there is none."""
        for fault, counts in zip(self._faults, self._waiting, strict=True):
            if not fault.matches(request) or counts[1] == 0:
                continue
            if counts[0] > 0:
                counts[0] -= 1
                continue
            counts[1] -= 1
            return fault
        return None
