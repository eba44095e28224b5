"""Faults by rule: which calls fail, how often, how, and whether they took effect first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.testing.workspace.exchange import Request, ServiceFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to a call in the place of its answer.

    Args:
        method: the HTTP method that it hits; empty for each.
        path: a regular expression that is searched for in the path.
        times: how many calls it hits.
        skip: how many calls that match it lets through first.
        after_effect: do what was asked, then fail.
        status: the HTTP status; 0 cuts the line without an answer, as a time-out does.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    skip: int = 0
    after_effect: bool = False
    status: int = 500
    error_code: str = "INTERNAL_ERROR"
    message: str = "The stand-in was told to fail."
    retry_after_seconds: int | None = None

    def matches(self, request: Request) -> bool:
        """Whether the call is of its kind."""
        return self.method in ("", request.method) and re.search(self.path, request.path) is not None

    def answer(self) -> ServiceFault:
        """What the service says."""
        return ServiceFault(self.status, self.error_code, self.message, retry_after_seconds=self.retry_after_seconds)


def throttled(*, path: str = "", times: int = 1, retry_after_seconds: int = 3) -> Fault:
    """429, with the seconds to wait."""
    return Fault(
        path=path,
        times=times,
        status=429,
        error_code="REQUEST_LIMIT_EXCEEDED",
        message="Too many requests.",
        retry_after_seconds=retry_after_seconds,
    )


def lost_answer(*, method: str = "", path: str = "", times: int = 1, skip: int = 0) -> Fault:
    """The call takes effect, and its answer is lost."""
    return Fault(method=method, path=path, times=times, skip=skip, after_effect=True, status=0)


class FaultRules:
    """The faults that are still to come, each counted down as it hits."""

    def __init__(self) -> None:
        self._waiting: list[list[int]] = []
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Have a fault hit from now on."""
        self._faults.append(fault)
        self._waiting.append([fault.skip, fault.times])

    def clear(self) -> None:
        """Let all calls through again."""
        self._faults.clear()
        self._waiting.clear()

    def due(self, request: Request) -> Fault | None:
        """The fault that hits this call, if any."""
        for fault, counts in zip(self._faults, self._waiting, strict=True):
            if not fault.matches(request) or counts[1] == 0:
                continue
            if counts[0] > 0:
                counts[0] -= 1
                continue
            counts[1] -= 1
            return fault
        return None
