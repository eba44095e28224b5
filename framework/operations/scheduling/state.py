"""The state of schedules, stored beside the updates of their pipeline, and who has paused them.

The server alone writes the state. Commands and requests pause and resume schedules: each paused schedule has a file of
its own, which is created and deleted as a whole. So nobody overwrites what another one has written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from framework.foundation.clock import timestamp_text
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import UNUSABLE, StoredFormat

_FORMAT = StoredFormat(1)
_FOLDER = "schedules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run that is to be started: its time, its attempt, and the moment before which it does not start."""

    fire: datetime
    attempt: int = 1
    not_before: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run whose start was decided.

    Args:
        fire: its time.
        attempt: its attempt, from 1.
        update_id: the id of its update, which its time and attempt determine.
        since: when it was decided.
        is_started: whether its start is known to be accepted; until then it is started again, by the same id.
        is_stopping: whether it was asked to stop because of its timeout.
    """

    fire: datetime
    attempt: int
    update_id: str
    since: datetime
    is_started: bool = False
    is_stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The last time of a schedule that was decided: its outcome, or why it was not run.

    Args:
        outcome: COMPLETED, FAILED, CANCELED, LOST, TIMED_OUT, SKIPPED or MISSED.
        update_id: its update; None if there was none.
        reason: one clause; empty if the update itself has it.
    """

    fire: datetime
    at: datetime
    outcome: str
    update_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """What is known about a schedule.

    Args:
        fingerprint: the times that `decided_until` belongs to.
        decided_until: all times up to this moment are decided; None before the first look.
        waiting: the run to start next.
        run: the run in progress.
        last: what became of the last time.
        missed: the number of missed times, ever.
        last_missed: the last one.
        tokens: the state of the sources when the last run by data was decided; None before the first.
        last_start: the last start by data.
    """

    fingerprint: str = ""
    decided_until: datetime | None = None
    waiting: Waiting | None = None
    run: Run | None = None
    last: LastRun | None = None
    missed: int = 0
    last_missed: datetime | None = None
    tokens: Mapping[str, str] | None = None
    last_start: datetime | None = None

    def confirmed(self) -> ScheduleState:
        """Return the state after the start of the run was accepted."""
        return self if self.run is None else replace(self, run=replace(self.run, is_started=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Who has paused a schedule, when and why; None is unknown."""

    since: str | None = None
    user: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStates:
    """The states of a pipeline's schedules, by name."""

    states: Mapping[str, ScheduleState] = field(default_factory=dict)

    def of(self, name: str) -> ScheduleState:
        """Return the state of a schedule; an empty one for a new schedule."""
        return self.states.get(name, ScheduleState())


class ScheduleStore:
    """The stored state of one pipeline's schedules.

    Args:
        storage: the pipeline's storage.
        pipeline: the pipeline's name; several pipelines may share a storage.
    """

    def __init__(self, storage: Storage, pipeline: str) -> None:
        self._storage = storage
        digest = _digest(pipeline)
        self._state_path = storage.path(_FOLDER, digest, "state.json")
        self._pauses = storage.path(_FOLDER, digest, "paused")

    def read(self) -> ScheduleStates:
        """Return the states.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
        """
        found = _FORMAT.read(self._storage, self._state_path, lambda content: content["schedules"])
        return ScheduleStates(states={name: _state_of(value) for name, value in (found or {}).items()})

    def write(self, states: ScheduleStates) -> None:
        """Replace the states atomically.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        content = {name: _json_of(state) for name, state in states.states.items()}
        self._storage.write_text(self._state_path, _FORMAT.text({"schedules": content}))

    def pauses(self, names: Iterable[str]) -> Mapping[str, Pause]:
        """Return the pauses of the schedules with these names; a file that can't be used pauses its schedule too.

        Raises:
            OperationError: STORAGE_NOT_READABLE.
        """
        there = frozenset(self._storage.list_names(self._pauses))
        found = {name: self._pause_of(name) for name in names if _file_of(name) in there}
        return {name: pause for name, pause in found.items() if pause is not None}

    def pause(self, name: str, pause: Pause) -> None:
        """Pause a schedule; one that is paused already keeps its first pause.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        self._storage.create_text(self._pause_path(name), _FORMAT.text({"schedule": name, **asdict(pause)}))

    def resume(self, name: str) -> None:
        """Resume a schedule; without effect if it is not paused.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        self._storage.delete_tree(self._pause_path(name))

    def _pause_of(self, name: str) -> Pause | None:
        try:
            return _FORMAT.read(
                self._storage,
                self._pause_path(name),
                lambda found: Pause(since=found["since"], user=found["user"], reason=found["reason"]),
            )
        except OperationError as error:
            if error.condition not in UNUSABLE:
                raise
            return Pause()

    def _pause_path(self, name: str) -> str:
        return self._storage.path(self._pauses, _file_of(name))


def _file_of(name: str) -> str:
    return f"{_digest(name)}.json"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]  # a name may have any characters


_TIMES = ("decided_until", "last_missed", "last_start")


def _json_of(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp_text(value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: _json_of(getattr(value, name)) for name in value.__dataclass_fields__}
    return dict(value) if isinstance(value, Mapping) else value


def _state_of(value: Mapping[str, Any]) -> ScheduleState:
    times = {name: _time_of(value[name]) for name in _TIMES}
    parts = {
        "waiting": _part(Waiting, value["waiting"], "fire", "not_before"),
        "run": _part(Run, value["run"], "fire", "since"),
        "last": _part(LastRun, value["last"], "fire", "at"),
    }
    return ScheduleState(**{**value, **times, **parts})


def _part(kind: type[Any], value: Mapping[str, Any] | None, *times: str) -> Any:
    return None if value is None else kind(**{**value, **{name: _time_of(value[name]) for name in times}})


def _time_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
