"""One look at the schedules of a pipeline: decide, store, act, confirm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from framework.foundation.clock import Clock
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.failpoints import failpoint
from framework.operations.scheduling.due import Decision, Note, Seen, Start, Stop, decide
from framework.operations.scheduling.schedule import Schedule
from framework.operations.scheduling.state import LastRun, ScheduleState, ScheduleStates, ScheduleStore


class Engines(Protocol):
    """What a schedule needs from the server that starts updates of its pipeline."""

    def run_state(self, update_id: str) -> str | None:
        """Return the state of an update; None if it is unknown."""
        ...

    def is_busy(self, own: str | None) -> bool:
        """Return whether an update other than `own` runs or waits."""
        ...

    def start(self, start: Start, schedule: Schedule) -> None:
        """Start or queue the update whose id the start's key determines; without effect if it was started before.

        Raises:
            UserError: it can never start.
            SluiceError: it can't start now.
        """
        ...

    def stop(self, stop: Stop) -> None:
        """Ask an update to stop."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A note about one schedule."""

    schedule: Schedule
    note: Note


class ScheduleTicker:
    """Looks at the schedules of one pipeline, again and again; the stored state is all it remembers.

    Args:
        pipeline_id: the id of the pipeline, a UUID.
        store: the state of its schedules.
        engines: starts and stops its updates.
        clock: the time.
        tokens: returns the state of the pipeline's sources, given that of the last look; None if it is unknown.
    """

    def __init__(
        self,
        *,
        pipeline_id: str,
        store: ScheduleStore,
        engines: Engines,
        clock: Clock,
        tokens: Callable[[Mapping[str, str]], Mapping[str, str] | None] = lambda _: None,
    ) -> None:
        self._pipeline_id = pipeline_id
        self._store = store
        self._engines = engines
        self._clock = clock
        self._tokens = tokens
        self.held: Mapping[str, SluiceError] = {}
        """Why a run can't be started now, by its schedule; the next look tries again."""

    def tick(self, schedules: Sequence[Schedule]) -> tuple[Report, ...]:
        """Decide and do what is due; a run that can't be started now is started by a later look.

        Raises:
            OperationError: the state can't be read or written; nothing was started that it does not record.
        """
        self.held = {}
        states, paused = self._store.read(), self._store.pauses(each.name for each in schedules)
        reports: list[Report] = []
        for schedule in schedules:
            state = states.of(schedule.name)
            seen = self._seen(schedule, state, is_paused=schedule.name in paused)
            decision = decide(schedule, state, seen, self._pipeline_id)
            if decision.state != state:
                states = self._write(states, schedule, decision.state)
            reports += [Report(schedule=schedule, note=note) for note in decision.notes]
            if decision.action is not None:
                states = self._act(states, schedule, decision)
        return tuple(reports)

    def _seen(self, schedule: Schedule, state: ScheduleState, *, is_paused: bool) -> Seen:
        own = None if state.run is None else state.run.update_id
        return Seen(
            now=self._clock.now(),
            run_state=None if own is None else self._engines.run_state(own),
            is_busy=self._engines.is_busy(own),
            is_paused=is_paused,
            tokens=self._tokens(state.tokens or {}) if schedule.on_data else None,
        )

    def _act(self, states: ScheduleStates, schedule: Schedule, decision: Decision) -> ScheduleStates:
        """Do the action; a crash after it leaves a run that the next look starts again, by the same id."""
        failpoint("schedules.after_decision")
        if isinstance(decision.action, Stop):
            self._engines.stop(decision.action)
            return states
        if decision.action is None:
            return states
        try:
            self._engines.start(decision.action, schedule)
        except UserError as error:  # such as a dataset that does not exist: it would fail again at each look
            return self._write(states, schedule, self._refused(decision.state, error))
        except SluiceError as error:  # such as an update that has just been started: the other schedules go on
            self.held = {**self.held, schedule.name: error}
            return states
        failpoint("schedules.after_start")
        return self._write(states, schedule, decision.state.confirmed())

    def _refused(self, state: ScheduleState, error: UserError) -> ScheduleState:
        if state.run is None:
            return state
        last = LastRun(fire=state.run.fire, at=self._clock.now(), outcome="FAILED", reason=error.what)
        return replace(state, run=None, last=last)

    def _write(self, states: ScheduleStates, schedule: Schedule, state: ScheduleState) -> ScheduleStates:
        changed = ScheduleStates(states={**states.states, schedule.name: state})
        self._store.write(changed)
        return changed
