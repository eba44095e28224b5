"""What is due: a pure function from a schedule, its state and what is seen now to the next state and one action.

The caller stores the next state, does the action, and stores the confirmed state. A crash before the first write
changes nothing: the same time is decided again. A crash after it leaves a run that is not confirmed: it is started
again under the same update id, which an engine accepts once. So each time is run once, or is recorded as missed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from framework.foundation.clock import timestamp_text
from framework.operations.scheduling.schedule import Overlap, Schedule
from framework.operations.scheduling.state import LastRun, Run, ScheduleState, Waiting

_MOST_COUNTED = 1_000
_CLOCK_SET_BACK = timedelta(hours=1)
_LONGEST_START = timedelta(minutes=10)
"""A started update that is still unknown after this time is lost."""
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED", "LOST"})
_FAILED = frozenset({"FAILED", "LOST"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the server sees of a pipeline.

    Args:
        now: the present time.
        run_state: the state of the schedule's own run; None if its update is unknown.
        is_busy: whether another update of the pipeline runs or waits.
        is_paused: whether the schedule is paused.
        tokens: the state of the sources, for a schedule that data starts; None if unknown.
    """

    now: datetime
    run_state: str | None = None
    is_busy: bool = False
    is_paused: bool = False
    tokens: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start the update of a run; a repeated start has the same ids.

    Args:
        key: the text that determines the id of the update, together with the pipeline.
        request_key: that of the request, which all attempts share.
        attempt: the attempt, from 1.
    """

    key: str
    request_key: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop an update that has run too long."""

    update_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something to report: a time that was missed or skipped, or the outcome of a run.

    Args:
        kind: `missed`, `skipped` or `ended`.
        times: the number of times that it is about.
    """

    kind: str
    fire: datetime
    text: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The next state of a schedule, an action, and what to report."""

    state: ScheduleState
    action: Start | Stop | None = None
    notes: tuple[Note, ...] = ()

    def then(self, state: ScheduleState, *notes: Note) -> Decision:
        """Return the decision with another state and further notes."""
        return replace(self, state=state, notes=(*self.notes, *notes))


def decide(schedule: Schedule, state: ScheduleState, seen: Seen, pipeline_id: str) -> Decision:
    """Return what is to be done now.

    Args:
        schedule: the schedule.
        state: its stored state.
        seen: what is seen now.
        pipeline_id: the id of the pipeline, a UUID, which its update ids depend on.
    """
    decision = _with_outcome(schedule, Decision(state=_begun(schedule, state, seen.now)), seen)
    if decision.action is not None:
        return decision
    decision = _with_data(schedule, _with_times(schedule, decision, seen), seen)
    return _with_start(schedule, decision, seen, pipeline_id)


def start_of(schedule: Schedule, fire: datetime, attempt: int) -> Start:
    """Return the start of an attempt for a time of a schedule."""
    request = f"schedule {schedule.name} {timestamp_text(fire)}"
    return Start(key=f"{request} {attempt}", request_key=request, attempt=attempt)


def update_id_of(pipeline_id: str, key: str) -> str:
    """Return the id that a key determines."""
    return str(uuid.uuid5(uuid.UUID(pipeline_id), key))


def _begun(schedule: Schedule, state: ScheduleState, now: datetime) -> ScheduleState:
    """Return the state of a schedule that is new or was changed, or of a clock that was set back: it begins now."""
    until = state.decided_until
    if state.fingerprint == schedule.fingerprint and until is not None and until <= now + _CLOCK_SET_BACK:
        return state
    return replace(state, fingerprint=schedule.fingerprint, decided_until=now, waiting=None)


def _with_outcome(schedule: Schedule, decision: Decision, seen: Seen) -> Decision:
    """Look at the run in progress: start it again if that is not confirmed, stop it, or take its outcome."""
    state, run = decision.state, decision.state.run
    if run is None:
        return decision
    ended = seen.run_state if seen.run_state in _ENDED else None
    if ended is None and seen.run_state is None and run.is_started and seen.now - run.since > _LONGEST_START:
        ended = "LOST"
    if ended is not None:
        return _ended(schedule, decision, run, ended, seen.now)
    if not run.is_started and seen.run_state is None:
        return replace(decision, action=start_of(schedule, run.fire, run.attempt))
    limit = schedule.timeout_seconds
    if limit is not None and not run.is_stopping and seen.now - run.since > timedelta(seconds=limit):
        reason = f"it ran longer than the {limit:g} seconds of schedule {schedule.name}"
        stopping = replace(state, run=replace(run, is_stopping=True, is_started=True))
        return replace(decision, state=stopping, action=Stop(update_id=run.update_id, reason=reason))
    return decision if run.is_started else decision.then(state.confirmed())


def _ended(schedule: Schedule, decision: Decision, run: Run, outcome: str, now: datetime) -> Decision:
    named = "TIMED_OUT" if run.is_stopping and outcome != "COMPLETED" else outcome
    last = LastRun(fire=run.fire, at=now, outcome=named, update_id=run.update_id)
    state = replace(decision.state, run=None, last=last)
    note = Note(kind="ended", fire=run.fire, text=named)
    newer = state.waiting is not None and state.waiting.fire > run.fire
    if named in _FAILED and run.attempt <= schedule.retries and not newer:
        again = Waiting(fire=run.fire, attempt=run.attempt + 1, not_before=now + schedule.backoff(run.attempt))
        state = replace(state, waiting=again)
    return decision.then(state, note)


def _with_times(schedule: Schedule, decision: Decision, seen: Seen) -> Decision:
    """Decide all times up to now: the last one may run, the ones before it are missed."""
    state, until = decision.state, decision.state.decided_until
    if schedule.cron is None or until is None or seen.now <= until:
        return decision
    latest = schedule.cron.last_until(seen.now, schedule.zone)
    if latest is None or latest <= until:
        return decision  # a look at which nothing is due writes nothing
    state = replace(state, decided_until=seen.now)
    if seen.is_paused:
        return decision.then(replace(state, waiting=None))
    earlier = _count_between(schedule, until, latest)
    if seen.now - latest > timedelta(seconds=schedule.latest_seconds):
        return _missed(decision, state, latest, earlier + 1, seen.now)
    if earlier:
        decision = _missed(decision, state, latest, earlier, seen.now)
        state = decision.state
    if (seen.is_busy or state.run is not None) and schedule.overlap is Overlap.SKIP:
        return _skipped(decision, state, latest, seen.now)
    waiting = Waiting(fire=latest, not_before=latest + schedule.jitter(latest))
    return decision.then(replace(state, waiting=waiting))


def _count_between(schedule: Schedule, begin: datetime, end: datetime) -> int:
    count = 0
    if schedule.cron is not None:
        for each in schedule.cron.times_after(begin, schedule.zone):
            if each >= end or count >= _MOST_COUNTED:
                break
            count += 1
    return count


def _missed(decision: Decision, state: ScheduleState, latest: datetime, times: int, now: datetime) -> Decision:
    last = LastRun(fire=latest, at=now, outcome="MISSED", reason="no server ran")
    text = "no server ran at its time" if times == 1 else f"no server ran at {times} of its times"
    state = replace(state, missed=state.missed + times, last_missed=latest, last=last)
    return decision.then(state, Note(kind="missed", fire=latest, text=text, times=times))


def _skipped(decision: Decision, state: ScheduleState, fire: datetime, now: datetime) -> Decision:
    reason = "an update of the pipeline still runs"
    last = LastRun(fire=fire, at=now, outcome="SKIPPED", reason=reason)
    return decision.then(replace(state, last=last, waiting=None), Note(kind="skipped", fire=fire, text=reason))


def _with_data(schedule: Schedule, decision: Decision, seen: Seen) -> Decision:
    """Let a run wait if the sources have changed since the last one that data started."""
    state = decision.state
    idle = state.run is None and state.waiting is None and not seen.is_paused
    if not (schedule.on_data and idle) or seen.tokens is None or seen.tokens == state.tokens:
        return decision
    pause = timedelta(seconds=schedule.min_seconds_between_runs)
    if state.last_start is not None and timedelta() <= seen.now - state.last_start < pause:
        return decision
    # The tokens were read before the start: what arrives later changes them again.
    fire = datetime.fromisoformat(timestamp_text(seen.now))
    waiting = Waiting(fire=fire, not_before=fire)
    return decision.then(replace(state, tokens=dict(seen.tokens), last_start=seen.now, waiting=waiting))


def _with_start(schedule: Schedule, decision: Decision, seen: Seen, pipeline_id: str) -> Decision:
    """Start the waiting run if nothing holds it."""
    state, waiting = decision.state, decision.state.waiting
    if waiting is None or state.run is not None or seen.is_paused or seen.now < waiting.not_before:
        return decision
    if seen.is_busy:
        drops = waiting.attempt == 1 and schedule.overlap is Overlap.SKIP and not schedule.on_data
        return _skipped(decision, state, waiting.fire, seen.now) if drops else decision
    start = start_of(schedule, waiting.fire, waiting.attempt)
    run = Run(
        fire=waiting.fire,
        attempt=waiting.attempt,
        update_id=update_id_of(pipeline_id, start.key),
        since=seen.now,
    )
    return replace(decision, state=replace(state, waiting=None, run=run), action=start)
