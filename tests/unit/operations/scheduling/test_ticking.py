"""Schedules over time: missed and busy times, retries, timeouts, pauses, data; and crashes at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.foundation.errors import OperationError, UserError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.quartz import parse_quartz
from framework.operations.scheduling.due import Start
from framework.operations.scheduling.schedule import Misfire, Overlap, Schedule
from framework.operations.scheduling.state import Pause, ScheduleState, ScheduleStore
from framework.operations.scheduling.ticking import ScheduleTicker
from framework.testing.manual_clock import ManualClock
from tests.support.scheduled_engines import PIPELINE_ID, FakeEngines

_HOURLY = Schedule(name="hourly", cron=parse_quartz("0 0 * * * ?"))
_BEGIN = datetime(2026, 1, 1, 11, 59, tzinfo=UTC)


class _CrashError(Exception):
    """The process is gone."""


class _Served:
    """A server that looks at one schedule, in a storage that survives it."""

    def __init__(
        self, folder: Path, engines: FakeEngines, clock: ManualClock, tokens: Mapping[str, str] | None = None
    ) -> None:
        self.store = ScheduleStore(LocalStorage(str(folder)), "shop")
        self.engines, self.clock = engines, clock
        self.tokens = tokens
        self.notes: list[tuple[str, int]] = []

    @property
    def state(self) -> ScheduleState:
        """The stored state."""
        return next(iter(self.store.read().states.values()))

    def look(self, schedule: Schedule) -> None:
        """One look of a server that has just started, as every one may have."""
        store, engines, clock = self.store, self.engines, self.clock
        ticker = ScheduleTicker(
            pipeline_id=PIPELINE_ID, store=store, engines=engines, clock=clock, tokens=lambda _: self.tokens
        )
        self.notes += [(each.note.kind, each.note.times) for each in ticker.tick([schedule])]

    def run_for(self, schedule: Schedule, seconds: float, every: float = 30.0) -> None:
        """Look again and again."""
        for _ in range(int(seconds // every)):
            self.look(schedule)
            self.clock.sleep(every)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[_Served]:
    """A server at one minute to noon, which has seen the schedule."""
    clock = ManualClock(_BEGIN)
    yield _Served(tmp_path, FakeEngines(clock=clock), clock)
    disarm()


def _runs(served: _Served) -> list[str]:
    return [key.removeprefix("schedule hourly 2026-01-01T").replace(":00.000Z", "") for key in served.engines.processes]


def test_a_schedule_runs_at_its_times_from_now_on(served: _Served) -> None:
    """A new schedule makes up for nothing; each time is one update."""
    served.run_for(_HOURLY, 3 * 3600)
    assert ["12:00 1", "13:00 1", "14:00 1"] == _runs(served)
    assert (served.state.last and served.state.last.outcome, served.state.missed) == ("COMPLETED", 0)


def test_the_last_missed_time_is_made_up_for_once(served: _Served) -> None:
    """After an outage of five hours one run is made up for, and four are missed."""
    served.look(_HOURLY)
    served.clock.sleep(5 * 3600)
    served.run_for(_HOURLY, 30, every=10)
    assert ["16:00 1"] == _runs(served)
    assert (served.state.missed, served.notes) == (4, [("missed", 4), ("ended", 1)])


def test_a_missed_time_is_not_made_up_for_after_its_grace(served: _Served) -> None:
    """A grace of ten minutes is over after an hour and a half; `skip` has none."""
    for schedule in (replace(_HOURLY, grace_seconds=600.0), replace(_HOURLY, misfire=Misfire.SKIP)):
        served.look(schedule)
        served.clock.sleep(5400)
        served.run_for(schedule, 600)
    assert [] == _runs(served)
    assert [("missed", 2), ("missed", 2)] == served.notes


def test_a_time_while_an_update_runs_is_skipped_or_waits(served: _Served) -> None:
    """With `queue` the run starts when the other update has ended."""
    served.engines.others.append("by hand")
    served.run_for(_HOURLY, 3600)
    assert ([], [("skipped", 1)]) == (_runs(served), served.notes)
    served.run_for(replace(_HOURLY, overlap=Overlap.QUEUE), 3600)
    assert [] == _runs(served)
    served.engines.others.clear()
    served.look(replace(_HOURLY, overlap=Overlap.QUEUE))
    assert ["13:00 1"] == _runs(served)


def test_a_failed_run_gets_its_retries_with_growing_delays(served: _Served) -> None:
    """Attempts belong to one request; a cancelled run gets none."""
    served.engines.outcomes.update({" 1": "FAILED", " 2": "LOST"})
    schedule = replace(_HOURLY, retries=2, backoff_seconds=120.0)
    served.run_for(schedule, 1800, every=10)
    assert ["12:00 1", "12:00 2", "12:00 3"] == _runs(served)
    starts = [found for found, _ in served.engines.started.values()]
    times = [since for _, since in served.engines.started.values()]
    assert 1 == len({each.request_key for each in starts})
    assert [130, 250] == [round((b - a).total_seconds(), -1) for a, b in pairwise(times)]
    served.engines.outcomes[" 1"] = "CANCELED"
    served.run_for(schedule, 3600)
    assert ["13:00 1"] == _runs(served)[3:]


def test_a_newer_time_ends_the_retries_of_an_older_one(served: _Served) -> None:
    """The run at one o'clock has the data of noon, too."""
    served.engines.outcomes[" 1"] = "FAILED"
    served.run_for(replace(_HOURLY, retries=1, backoff_seconds=3_590.0), 3700)
    assert ["12:00 1", "13:00 1"] == _runs(served)


def test_an_update_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    """It has timed out, which is no reason to try again."""
    clock = ManualClock(_BEGIN)
    slow = _Served(tmp_path, FakeEngines(clock=clock, seconds=1e6), clock)
    slow.run_for(replace(_HOURLY, timeout_seconds=900.0, retries=3), 1800)
    assert (["12:00 1"], "TIMED_OUT") == (_runs(slow), slow.state.last and slow.state.last.outcome)


def test_a_paused_schedule_misses_nothing(served: _Served) -> None:
    """What falls into a pause is neither run nor missed, also after it was resumed."""
    served.look(_HOURLY)
    served.store.pause("hourly", Pause(since="2026-01-01T11:59:00.000Z", user="ada"))
    served.run_for(_HOURLY, 5400)
    served.store.resume("hourly")
    served.run_for(_HOURLY, 1800)
    assert ([], 0) == (_runs(served), served.state.missed)
    served.run_for(_HOURLY, 3600)
    assert ["14:00 1"] == _runs(served)


def test_a_changed_schedule_begins_anew(served: _Served) -> None:
    """Times that the new expression would have had in the past are not made up for."""
    served.look(_HOURLY)
    served.clock.sleep(1800)
    served.look(replace(_HOURLY, cron=parse_quartz("0 15 * * * ?")))
    assert ([], []) == (_runs(served), served.notes)


def test_a_clock_that_was_wrong_by_years_stops_no_schedule(served: _Served, tmp_path: Path) -> None:
    """A look in the far future decides times that still come."""
    late = ManualClock(datetime(2099, 1, 1, tzinfo=UTC))
    _Served(tmp_path, served.engines, late).look(_HOURLY)
    served.run_for(_HOURLY, 300)
    assert ["12:00 1"] == _runs(served)


def test_data_starts_a_run_and_no_data_starts_none(served: _Served) -> None:
    """A change of a source starts a run, at most every five minutes; unknown sources start none."""
    schedule = Schedule(name="arrivals", on_data=True)
    found = []
    for tokens in (None, {"orders": "1"}, {"orders": "1"}, {"orders": "2"}, {"orders": "3"}, {"orders": "3"}):
        served.tokens = tokens
        served.run_for(schedule, 150)
        found.append(len(served.engines.processes))
    assert [0, 1, 1, 2, 2, 3] == found


def test_jitter_delays_by_the_time_of_the_run(served: _Served) -> None:
    """The delay of a time is always the same, so that a restart does not change it."""
    schedule = replace(_HOURLY, jitter_seconds=600.0)
    delays = [schedule.jitter(datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in range(24)]
    assert all(timedelta() <= each < timedelta(minutes=10) for each in delays)
    assert 24 == len(set(delays))
    served.run_for(schedule, 660)
    assert ["12:00 1"] == _runs(served)


def test_a_start_that_can_never_be_is_not_tried_again(served: _Served) -> None:
    """A refused request is the outcome of its run, with the text."""

    class Refusing(FakeEngines):
        def start(self, start: Start, schedule: Schedule) -> None:
            super().start(start, schedule)
            raise UserError("UPDATE_NOT_FOUND", update="7b1c", fewest=4)

    served.engines = Refusing(clock=served.clock)
    served.run_for(_HOURLY, 600)
    last = served.state.last
    assert (1, "FAILED") == (len(_runs(served)), last and last.outcome)
    assert last is not None
    assert last.reason.startswith("No update of this storage has the id")


def test_a_start_that_can_not_be_now_is_tried_again_and_holds_no_other_schedule(tmp_path: Path) -> None:
    """A storage that another server holds delays the run; its update has the id of its time all along."""
    clock = ManualClock(_BEGIN)

    class Taken(FakeEngines):
        def start(self, start: Start, schedule: Schedule) -> None:
            if schedule.name == "hourly" and clock.now() < _BEGIN + timedelta(minutes=10):
                raise OperationError("QUERY_FAILED", cause="taken")
            super().start(start, schedule)

    engines = Taken(clock=clock)
    store = ScheduleStore(LocalStorage(str(tmp_path)), "shop")
    ticker = ScheduleTicker(pipeline_id=PIPELINE_ID, store=store, engines=engines, clock=clock)
    schedules = [_HOURLY, replace(_HOURLY, name="other")]
    held = []
    for _ in range(25):
        ticker.tick(schedules)
        held.append([*ticker.held])
        clock.sleep(30)
    assert (["hourly"], []) == (held[5], held[-1])
    assert ["schedule other 2026-01-01T12:00:00.000Z 1", "schedule hourly 2026-01-01T12:00:00.000Z 1"] == (
        engines.processes
    )


def test_two_who_pause_at_the_same_time_lose_neither_pause(tmp_path: Path) -> None:
    """A command and the server pause and resume several schedules, each as if the other were not there."""
    storage = LocalStorage(str(tmp_path))
    names = [f"schedule {number}" for number in range(24)]

    def change(number: int) -> None:
        store = ScheduleStore(storage, "shop")
        store.pause(names[number], Pause(since="2026-01-01T12:00:00.000Z", user=f"user {number}"))
        if number % 3 == 0:
            store.resume(names[number])

    with ThreadPoolExecutor(8) as threads:
        [*threads.map(change, range(24))]
    found = ScheduleStore(storage, "shop").pauses(names)
    assert {name: f"user {number}" for number, name in enumerate(names) if number % 3} == {
        name: pause.user for name, pause in found.items()
    }
    assert {} == ScheduleStore(storage, "other").pauses(names)


def test_the_first_pause_stays_and_a_damaged_one_pauses_too(tmp_path: Path) -> None:
    """Who paused first is shown; half a file must not start what somebody has paused."""
    store = ScheduleStore(LocalStorage(str(tmp_path)), "shop")
    for user in ("ada", "bob"):
        store.pause("hourly", Pause(since="2026-01-01T12:00:00.000Z", user=user))
    assert "ada" == store.pauses(["hourly"])["hourly"].user
    (file,) = (tmp_path / "schedules").glob("*/paused/*.json")
    file.write_text('{"format": 1, "sch')
    assert {"hourly": Pause()} == store.pauses(["hourly", "daily"])
    store.resume("hourly")
    assert {} == store.pauses(["hourly"])


def _crash() -> None:
    raise _CrashError


_POINTS = ("storage.before_replace", "schedules.after_decision", "schedules.after_start")


@settings(max_examples=25, deadline=None)
@given(
    looks=st.lists(
        st.tuples(st.integers(5, 900), st.sampled_from([None, *_POINTS]), st.integers(1, 2)), min_size=10, max_size=40
    )
)
def test_each_time_runs_once_or_is_missed_whatever_crashes(looks: list[tuple[int, str | None, int]]) -> None:
    """Servers die at any point of any look; each time has one process, or is counted as missed."""
    schedule = Schedule(name="often", cron=parse_quartz("0 0/5 * * * ?"), overlap=Overlap.QUEUE)
    with TemporaryDirectory() as folder:
        clock = ManualClock(datetime(2026, 1, 1, 11, 59, 58, tzinfo=UTC))
        served = _Served(Path(folder), FakeEngines(clock=clock, seconds=1.0), clock)
        served.look(schedule)
        for seconds, point, nth in looks:
            clock.sleep(seconds)
            if point is not None:
                arm(point, nth=nth, action=_crash)
            with suppress(_CrashError):
                served.look(schedule)
            disarm()
        if (clock.now() + timedelta(seconds=10)).minute // 5 != clock.now().minute // 5:
            clock.sleep(20)  # no other time comes before the end is taken
        for _ in range(4):  # nothing is left over
            served.look(schedule)
            clock.sleep(2)
        times = Counter(key.rpartition(" ")[0] for key in served.engines.processes)
        expected = sum(1 for _ in _times_until(schedule, datetime(2026, 1, 1, 11, 59, 58, tzinfo=UTC), clock.now()))
        assert {} == {time: count for time, count in times.items() if count != 1}
        assert expected == len(times) + served.state.missed


def _times_until(schedule: Schedule, begin: datetime, end: datetime) -> Iterator[datetime]:
    assert schedule.cron is not None
    for each in schedule.cron.times_after(begin, schedule.zone):
        if each > end:
            return
        yield each
