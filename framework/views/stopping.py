"""The outcome of a request to stop an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framework.run.update.control.lock_holder import LockHolder

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})
"""The states of an update that ended in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """The outcome of a request to stop an update.

    Args:
        update_id: the update; None if no update is running.
        holder: the process that ran it; None if it is not running.
        state: its last state in the event log; None if it has not started.
        has_ended: whether it has ended.
    """

    update_id: str | None = None
    holder: LockHolder | None = None
    state: str | None = None
    has_ended: bool = False


def stop_sentence(pipeline: str, report: StopReport) -> str:
    """Return the outcome in one sentence."""
    if report.update_id is None:
        return f"No update of {pipeline} is running."
    update = f"Update {report.update_id} of {pipeline}"
    if report.has_ended and report.state in ENDED:
        return f"{update} has ended: {report.state}."
    if report.has_ended:
        return f"{update} does not run any more. It was killed, or has lost its lock: its log has no end."
    if report.holder is None:
        return f"{update} has not started. It stops when it starts."
    where = f"process {report.holder.pid} on {report.holder.host}"
    return f"{update} is asked to stop, and has not ended yet: {where}."


def stop_json(pipeline: str, report: StopReport) -> dict[str, Any]:
    """Return the outcome as JSON values."""
    holder = report.holder
    return {
        "pipeline": pipeline,
        "update_id": report.update_id,
        "state": report.state,
        "has_ended": report.has_ended,
        "host": None if holder is None else holder.host,
        "pid": None if holder is None else holder.pid,
    }
