"""The lag of a flow and its health, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.names import QualifiedName
from framework.recovery.quarantine.waiting import WaitingRows
from framework.sources.port import Lag


class FlowHealth(StrEnum):
    """Whether a flow does what it should."""

    IDLE = "idle"
    """It has read everything that its sources hold."""
    RUNNING = "running"
    """An update runs it, and it has unread data or may have some."""
    STUCK = "stuck"
    """A continuous update runs it, but it is silent."""
    BEHIND = "behind"
    """It has unread data, and no update runs."""
    FAILED = "failed"
    """Its last run failed."""
    DONE = "done"
    """It is a once flow that has read its source."""
    NOT_STARTED = "not started"
    UNKNOWN = "unknown"
    """No update runs, and only the source knows whether it has more; or its state can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLag:
    """The lag of one flow.

    Args:
        flow: its full name.
        dataset: its target.
        health: whether it does what it should.
        lag: what is unread; None where the number is unknown.
        last_event: the time of its last event, ISO 8601 in UTC; None without one.
        silent_seconds: the time since then.
        reason: why it is stuck or failed; empty otherwise.
        quarantined: its rows that wait in the quarantine; None without one.
    """

    flow: QualifiedName
    dataset: QualifiedName
    health: FlowHealth
    lag: Lag
    last_event: str | None = None
    silent_seconds: float | None = None
    reason: str = ""
    quarantined: WaitingRows | None = None
