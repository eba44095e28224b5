"""The lag of a flow and its health, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.names import QualifiedName
from framework.recovery.quarantine.waiting import WaitingRows
from framework.sources.port import Lag


class FlowHealth(StrEnum):
    """The health of a flow."""

    IDLE = "idle"
    """It has read all data of its sources."""
    RUNNING = "running"
    """It is running, and has or may have unread data."""
    STUCK = "stuck"
    """It is part of a running continuous update, but is silent."""
    BEHIND = "behind"
    """It has unread data, and no update runs."""
    FAILED = "failed"
    """Its last run failed."""
    DONE = "done"
    """It is a once flow that has read its source."""
    NOT_STARTED = "not started"
    UNKNOWN = "unknown"
    """No update is running, and only the source knows whether there is more data; or its state can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLag:
    """The lag of one flow.

    Args:
        flow: its full name.
        dataset: its target.
        health: its health.
        lag: the unread data; None where a number is unknown.
        last_event: the time of its last event, ISO 8601 in UTC; None without one.
        silent_seconds: seconds since the last event.
        reason: why it is stuck or failed; empty otherwise.
        quarantined: its open rows in the quarantine; None if there are none.
        lost_in_seconds: the time until a source may delete something that the flow has not read; 0 if it has begun to,
            None if nothing is unread or nothing is known.
    """

    flow: QualifiedName
    dataset: QualifiedName
    health: FlowHealth
    lag: Lag
    last_event: str | None = None
    silent_seconds: float | None = None
    reason: str = ""
    quarantined: WaitingRows | None = None
    lost_in_seconds: float | None = None
