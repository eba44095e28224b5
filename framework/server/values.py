"""The values of the server's answers: pipelines, updates, attempts of requests, and their JSON.

Field names are those of the JSON. Times are ISO 8601 in UTC; None is unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from framework.foundation.errors import SluiceError

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED", "LOST"})
"""The states of updates that do not change any more."""


class Activity(StrEnum):
    """What a pipeline does now; the outcome of its last update is another value."""

    IDLE = "IDLE"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """The selections of an update, as its first event records them."""

    refresh_selection: tuple[str, ...] = ()
    full_refresh_selection: tuple[str, ...] = ()
    reset_checkpoint_selection: tuple[str, ...] = ()
    full_refresh: bool = False
    continuous: bool = False
    validate_only: bool = False

    @property
    def kind(self) -> str:
        """CONTINUOUS, VALIDATE, FULL_REFRESH or REFRESH."""
        if self.validate_only:
            return "VALIDATE"
        if self.continuous:
            return "CONTINUOUS"
        return "FULL_REFRESH" if self.full_refresh or self.full_refresh_selection else "REFRESH"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow:
    """One update of a pipeline, whoever started it.

    Args:
        state: Databricks' states, and LOST: its process ended without a word.
        started_by: `server` if its run record is in the storage, `other` for a terminal, cron or a notebook.
        error: why it failed, in one text.
        log: whether the text of its process is kept.
    """

    update_id: str
    request_id: str
    pipeline_id: str
    attempt: int = 1
    state: str = "CREATED"
    cause: str = "USER_ACTION"
    user: str | None = None
    host: str | None = None
    pid: int | None = None
    started_by: str = "other"
    created_at: str | None = None
    ended_at: str | None = None
    options: UpdateOptions = field(default_factory=UpdateOptions)
    error: str | None = None
    log: bool = False

    @property
    def seconds(self) -> float | None:
        """Its duration; None before its end."""
        return seconds_between(self.created_at, self.ended_at)

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {**_without(asdict(self), "options"), "seconds": self.seconds, "kind": self.options.kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A request with all its attempts, oldest first; its outcome is that of the last one."""

    request_id: str
    attempts: tuple[UpdateRow, ...]

    @property
    def outcome(self) -> str:
        """The state of the last attempt."""
        return self.attempts[-1].state

    @property
    def ended_at(self) -> str | None:
        """The end of the last attempt; None while it runs."""
        return self.attempts[-1].ended_at

    @property
    def seconds(self) -> float | None:
        """The time from the start of the first attempt to the end of the last one."""
        return seconds_between(self.attempts[0].created_at, self.ended_at)

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "request_id": self.request_id,
            "outcome": self.outcome,
            "attempts": [each.to_json() for each in self.attempts],
            "created_at": self.attempts[0].created_at,
            "ended_at": self.ended_at,
            "seconds": self.seconds,
        }

    def brief(self) -> dict[str, Any]:
        """Return the row for a strip of recent requests."""
        return {
            "request_id": self.request_id,
            "update_id": self.attempts[-1].update_id,
            "outcome": self.outcome,
            "seconds": self.seconds,
            "attempts": len(self.attempts),
        }


def folded(updates: Sequence[UpdateRow]) -> tuple[RequestRow, ...]:
    """Return the requests of updates, newest first, each with its attempts.

    Args:
        updates: updates, oldest first.
    """
    attempts: dict[str, list[UpdateRow]] = {}
    for update in updates:
        attempts[update.request_id] = [*attempts.pop(update.request_id, []), update]
    return tuple(RequestRow(request_id=each, attempts=tuple(found)) for each, found in reversed(attempts.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as a value: of a spec that can't be loaded, or of a storage that can't be read."""

    condition: str
    what: str
    remedy: str = ""
    file: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fault as JSON values."""
        return asdict(self)


def fault_of(error: SluiceError) -> Fault:
    """Return an error as a value."""
    return Fault(condition=error.condition, what=error.what, remedy=error.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    """The state of a pipeline: what it does now, and how its last updates ended.

    Args:
        update: the update that runs or waits; None if there is none.
        last: the last update that has ended.
        recent: the newest requests, oldest first.
        fault: why the storage can't be read; the other fields are those of the last reading.
    """

    activity: Activity = Activity.IDLE
    update: UpdateRow | None = None
    last: UpdateRow | None = None
    recent: tuple[RequestRow, ...] = ()
    fault: Fault | None = None

    @property
    def attention(self) -> str | None:
        """Why somebody should look: the error of the last update, unless a newer one runs or was good."""
        return self.last.error if self.last is not None and self.last.state in {"FAILED", "LOST"} else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRow:
    """A pipeline with its state.

    Args:
        more: fields of other parts of the server, such as the next run of a schedule.
    """

    pipeline_id: str
    name: str
    spec_file: str
    storage: str
    catalog: str
    schema: str
    continuous: bool
    state: PipelineState
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        state = self.state
        return {
            **_without(asdict_shallow(self), "state", "more"),
            "activity": state.activity,
            "update": None if state.update is None else state.update.to_json(),
            "last": None if state.last is None else state.last.to_json(),
            "recent": [each.brief() for each in state.recent],
            "attention": state.attention,
            "lag": None,
            "quarantine_rows": None,
            "next_run": None,
            "parked": None,
            "fault": None if state.fault is None else state.fault.to_json(),
            **self.more,
        }


def asdict_shallow(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass without converting their values."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two times in ISO 8601; None if one is unknown."""
    if start is None or end is None:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 3)


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
