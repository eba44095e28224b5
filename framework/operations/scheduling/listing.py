"""The schedules of a pipeline with their state, as a table and as JSON, and the commands that change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from framework.declare.pipeline_spec import PipelineSpec
from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.nearest import nearest_hint
from framework.foundation.processes import user_name
from framework.foundation.wording import seconds_text
from framework.operations.scheduling.schedule import Misfire, Overlap, Schedule
from framework.operations.scheduling.schedule_file import read_schedules
from framework.operations.scheduling.source_watch import watch_sources
from framework.operations.scheduling.state import Pause, ScheduleState, ScheduleStore
from framework.views.table import Cell, Column, Table, Tone

_COLUMNS = (
    Column(name="schedule", wraps=False),
    Column(name="when", wraps=False),
    Column(name="next run", wraps=False),
    Column(name="last", wraps=False),
    Column(name="missed", right=True),
    Column(name="note"),
)
_TONES = {"COMPLETED": Tone.GOOD, "FAILED": Tone.BAD, "LOST": Tone.BAD, "TIMED_OUT": Tone.BAD, "MISSED": Tone.WARNING}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule, its state, its pause, and its next times."""

    schedule: Schedule
    state: ScheduleState
    pause: Pause | None
    next_times: tuple[datetime, ...]

    @property
    def when(self) -> str:
        """Its times in one line."""
        schedule = self.schedule
        if schedule.cron is None:
            return f"on data, at most every {seconds_text(schedule.min_seconds_between_runs)}"
        return f"{schedule.cron.expression} ({schedule.timezone_id})"


def list_schedules(spec: PipelineSpec, storage: Storage, clock: Clock) -> tuple[ScheduleRow, ...]:
    """Return the schedules of a pipeline.

    Raises:
        UserError: SCHEDULES_UNREADABLE, SCHEDULES_INVALID_YAML.
        GraphErrors: SCHEDULE_INVALID.
        OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
    """
    store = ScheduleStore(storage, spec.name)
    schedules = read_schedules(spec)
    states, pauses = store.read(), store.pauses(each.name for each in schedules)
    return tuple(
        ScheduleRow(
            schedule=each,
            state=states.of(each.name),
            pause=pauses.get(each.name),
            next_times=() if each.name in pauses else each.next_times(clock.now()),
        )
        for each in schedules
    )


def find_schedule(rows: Sequence[ScheduleRow], name: str | None, pipeline: str) -> ScheduleRow:
    """Return a schedule by its name; the only one if no name is given.

    Raises:
        UserError: SCHEDULE_NOT_FOUND.
    """
    names = [row.schedule.name for row in rows]
    if name is None and len(rows) == 1:
        return rows[0]
    if name not in names:
        hint = nearest_hint(name, names) if name is not None else f" It has {len(names)}: name one."
        raise UserError("SCHEDULE_NOT_FOUND", pipeline=pipeline, schedule=name or "", hint=hint)
    return rows[names.index(name)]


def pause_schedule(
    spec: PipelineSpec, storage: Storage, clock: Clock, name: str, reason: str = "", *, user: str | None = None
) -> ScheduleRow:
    """Pause a schedule, and return it.

    Args:
        spec: the pipeline.
        storage: its storage.
        clock: the present time.
        name: the schedule.
        reason: why, for those who look at it.
        user: who pauses it; None for the user of this process.

    Raises:
        UserError: SCHEDULE_NOT_FOUND.
    """
    row = find_schedule(list_schedules(spec, storage, clock), name, spec.name)
    pause = Pause(since=timestamp_text(clock.now()), user=user or user_name(), reason=reason or None)
    ScheduleStore(storage, spec.name).pause(row.schedule.name, pause)
    return find_schedule(list_schedules(spec, storage, clock), name, spec.name)


def resume_schedule(spec: PipelineSpec, storage: Storage, clock: Clock, name: str) -> ScheduleRow:
    """Resume a schedule, and return it."""
    find_schedule(list_schedules(spec, storage, clock), name, spec.name)
    ScheduleStore(storage, spec.name).resume(name)
    return find_schedule(list_schedules(spec, storage, clock), name, spec.name)


def schedules_table(rows: Sequence[ScheduleRow]) -> Table:
    """Return one row for each schedule, with times in its time zone."""
    return Table.of(_COLUMNS, [_cells(row) for row in rows]).without_empty_columns()


def schedules_json(rows: Sequence[ScheduleRow]) -> list[dict[str, Any]]:
    """Return the schedules as JSON values."""
    return [schedule_json(row) for row in rows]


def schedule_json(row: ScheduleRow) -> dict[str, Any]:
    """Return a schedule as JSON values; times are in UTC."""
    schedule, state, last = row.schedule, row.state, row.state.last
    return {
        "schedule": schedule.name,
        "kind": "on_data" if schedule.cron is None else "cron",
        "cron": None if schedule.cron is None else schedule.cron.expression,
        "text": row.when,
        "timezone": schedule.timezone_id,
        "paused": row.pause is not None,
        "pause": None if row.pause is None else asdict(row.pause),
        "misfire": schedule.misfire.value,
        "overlap": schedule.overlap.value,
        "retries": schedule.retries,
        "timeout_seconds": schedule.timeout_seconds,
        "next": [timestamp_text(each) for each in row.next_times],
        "last": None
        if last is None
        else {
            "at": timestamp_text(last.fire),
            "outcome": last.outcome,
            "update_id": last.update_id,
            "reason": last.reason,
        },
        "missed": state.missed,
        "last_missed": None if state.last_missed is None else timestamp_text(state.last_missed),
    }


def unseen_sources(row: ScheduleRow, pipeline: str, storage: Storage) -> tuple[str, ...]:
    """Return why data can't start a schedule now: the sources whose changes are not seen; empty for one with times.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
    """
    if not row.schedule.on_data:
        return ()
    found = watch_sources(storage, pipeline, row.state.tokens or {})
    return found.unseen or (() if found.tokens else ("any streaming source, because it has none",))


def explanation(row: ScheduleRow, unseen: Sequence[str] = ()) -> list[str]:
    """Return what a schedule does as sentences, with its next five times.

    Args:
        row: the schedule.
        unseen: what `unseen_sources` returns.
    """
    schedule = row.schedule
    lines = [f"{schedule.name}: {row.when}"]
    if row.pause is not None:
        by = f" by {row.pause.user}" if row.pause.user else ""
        why = f": {row.pause.reason}" if row.pause.reason else ""
        since = f" since {row.pause.since}" if row.pause.since else ""
        lines.append(f"Paused{by}{since}{why}.")
    lines += [f"  {_local(each, schedule)}" for each in row.next_times]
    if unseen:
        lines.append(f"Data can't start it now: the server does not see changes of {', '.join(unseen)}.")
    lines += [_misfire_text(schedule)] if schedule.cron is not None else []
    if schedule.overlap is Overlap.SKIP and schedule.cron is not None:
        lines.append("A time at which an update of the pipeline runs is skipped.")
    else:
        lines.append("A run waits while another update of the pipeline runs.")
    if schedule.retries:
        backoff = seconds_text(schedule.backoff_seconds)
        lines.append(
            f"A failed run is tried {schedule.retries} more times, first after {backoff}, then later each time."
        )
    if schedule.timeout_seconds is not None:
        lines.append(f"An update that takes longer than {seconds_text(schedule.timeout_seconds)} is stopped.")
    if schedule.jitter_seconds:
        lines.append(f"Each run starts up to {seconds_text(schedule.jitter_seconds)} later, which spreads the load.")
    if row.state.last is not None:
        lines.append(f"Last: {_last_text(row)}.")
    lines.append("`sluice serve` starts the runs; without a server no schedule runs.")
    return lines


def _misfire_text(schedule: Schedule) -> str:
    if schedule.misfire is Misfire.SKIP:
        return "Times at which no server runs are missed."
    grace = seconds_text(schedule.latest_seconds)
    return f"Of the times at which no server runs, the last one is made up for, if it is not older than {grace}."


def _cells(row: ScheduleRow) -> tuple[Cell | str, ...]:
    last = row.state.last
    following = _local(row.next_times[0], row.schedule) if row.next_times else "paused" if row.pause else "on data"
    return (
        row.schedule.name,
        row.when,
        Cell(text=following, tone=Tone.WARNING if row.pause else None),
        Cell(text="" if last is None else last.outcome, tone=None if last is None else _TONES.get(last.outcome)),
        str(row.state.missed or ""),
        Cell(text=_note(row), tone=Tone.QUIET),
    )


def _note(row: ScheduleRow) -> str:
    if row.pause is not None and row.pause.reason:
        return row.pause.reason
    return "" if row.state.last is None else row.state.last.reason


def _last_text(row: ScheduleRow) -> str:
    last = row.state.last
    if last is None:
        return ""
    reason = f", because {last.reason}" if last.reason else ""
    update = f", update {last.update_id}" if last.update_id else ""
    return f"{_local(last.fire, row.schedule)} {last.outcome}{reason}{update}"


def _local(moment: datetime, schedule: Schedule) -> str:
    return f"{moment.astimezone(schedule.zone):%a %Y-%m-%d %H:%M:%S %Z}"
