"""Quartz schedules against a second reading of Quartz's documentation, minute by minute, over days of clock changes."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.foundation.quartz import parse_quartz

_ZONES = (
    "Europe/Oslo",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Cairo",
    "UTC",
)
_BEGINS = (
    date(2026, 3, 25),  # Oslo springs forward on the 29th
    date(2026, 10, 20),  # ... and falls back on the 25th
    date(2026, 3, 5),  # New York on the 8th
    date(2026, 10, 28),  # ... and on November 1
    date(2018, 11, 1),  # São Paulo had no midnight on the 4th
    date(2018, 2, 14),
    date(2026, 4, 1),  # Lord Howe shifts by half an hour
    date(2026, 10, 1),
    date(2026, 4, 20),  # Cairo has no midnight on the 24th
    date(2028, 2, 24),
)
_DAYS = 7
_MINUTE = timedelta(minutes=1)
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """An expression, with what its fields mean."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: str | frozenset[int] | None
    weekdays: str | frozenset[int] | None

    def has_day(self, day: date) -> bool:
        """Whether both fields of days match."""
        return self._has_day(day) and self._has_weekday(day)

    def _has_day(self, day: date) -> bool:
        if self.days == "L":
            return day.day == calendar.monthrange(day.year, day.month)[1]
        return not isinstance(self.days, frozenset) or day.day in self.days

    def _has_weekday(self, day: date) -> bool:
        last = calendar.monthrange(day.year, day.month)[1]
        quartz_day = day.isoweekday() % 7 + 1  # SUN = 1
        if isinstance(self.weekdays, frozenset):
            return quartz_day in self.weekdays
        if self.weekdays is None:
            return True
        if self.weekdays == "L":
            return quartz_day == 7
        if self.weekdays.endswith("L"):
            return quartz_day == int(self.weekdays[:-1]) and day.day > last - 7
        wanted, _, number = self.weekdays.partition("#")
        return quartz_day == int(wanted) and (day.day - 1) // 7 + 1 == int(number)


@st.composite
def _field(draw: st.DrawFn, first: int, last: int, most: int = 3) -> tuple[str, frozenset[int]]:
    count = last - first + 1
    texts, values = [], set()
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(["one", "range", "step", "start", "steps of a range"]))
        begin, end = draw(st.integers(first, last)), draw(st.integers(first, last))
        step = draw(st.integers(1, count))
        span = [first + (begin - first + each) % count for each in range((end - begin) % count + 1)]
        if kind == "one":
            texts.append(str(begin))
            values.add(begin)
        elif kind == "range":
            texts.append(f"{begin}-{end}")
            values |= set(span)
        elif kind == "step":
            texts.append(f"*/{step}")
            values |= set(range(first, last + 1, step))
        elif kind == "start":
            texts.append(f"{begin}/{step}")
            values |= set(range(begin, last + 1, step))
        else:
            texts.append(f"{begin}-{end}/{step}")
            values |= set(span[::step])
    return ",".join(texts), frozenset(values)


@st.composite
def _expressions(draw: st.DrawFn) -> _Drawn:
    seconds = draw(st.one_of(st.just(("0", frozenset({0}))), _field(0, 59)))
    minutes = draw(st.one_of(st.just(("*", frozenset(range(60)))), _field(0, 59)))
    hours = draw(st.one_of(st.just(("*", frozenset(range(24)))), _field(0, 23), st.just(("2", frozenset({2})))))
    days, weekdays = "?", "?"
    day_values: str | frozenset[int] | None = None
    weekday_values: str | frozenset[int] | None = None
    if draw(st.booleans()):
        days, day_values = draw(
            st.one_of(
                st.just(("*", None)), st.just(("L", "L")), _field(1, 31), st.just(("1/1", frozenset(range(1, 32))))
            )
        )
    else:
        nth = st.tuples(st.integers(1, 7), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}")
        ends = st.integers(1, 7).map(lambda day: f"{day}L")
        named = st.integers(1, 7).map(lambda day: (_WEEKDAYS[day - 1], frozenset({day})))
        weekdays, weekday_values = draw(
            st.one_of(
                _field(1, 7),
                nth.map(lambda text: (text, text)),
                ends.map(lambda text: (text, text)),
                st.just(("L", "L")),
                named,
            )
        )
    text = f"{seconds[0]} {minutes[0]} {hours[0]} {days} * {weekdays}"
    return _Drawn(
        text=text, seconds=seconds[1], minutes=minutes[1], hours=hours[1], days=day_values, weekdays=weekday_values
    )


def _read_by_hand(drawn: _Drawn, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """All times in a window: of named hours by the wall's clock, of every hour or minute by real minutes."""
    found = set()
    minute = begin
    every = len(drawn.hours) == 24 or len(drawn.minutes) == 60
    while minute < end:
        wall = minute.astimezone(zone).replace(tzinfo=None) if every else minute.replace(tzinfo=None)
        if wall.minute in drawn.minutes and wall.hour in drawn.hours and drawn.has_day(wall.date()):
            real = minute if every else _first_real(wall, zone)
            found |= {real + timedelta(seconds=second) for second in drawn.seconds}
        minute += _MINUTE
    return sorted(found)


def _first_real(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first moment of a wall time; after a skipped one, the first moment that is not skipped."""
    while True:
        real = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if real.astimezone(zone).replace(tzinfo=None) == wall:
            return real
        wall += _MINUTE


@settings(max_examples=40, deadline=None)
@given(
    drawn=_expressions(),
    zone=st.sampled_from(_ZONES),
    begin=st.sampled_from(_BEGINS),
    seconds=st.integers(0, (_DAYS - 2) * 86_400),
)
def test_a_schedule_fires_when_its_expression_says(drawn: _Drawn, zone: str, begin: date, seconds: int) -> None:
    """The times after any moment, and the last one until it, are those that reading each minute by hand finds."""
    place = ZoneInfo(zone)
    start = datetime(begin.year, begin.month, begin.day, tzinfo=UTC)
    expected = _read_by_hand(drawn, place, start - timedelta(days=1), start + timedelta(days=_DAYS + 1))
    moment, end = start + timedelta(seconds=seconds), start + timedelta(days=_DAYS)
    schedule = parse_quartz(drawn.text)
    actual: list[datetime] = []
    for each in schedule.times_after(moment, place):
        if each >= end or len(actual) == 50:
            break
        actual.append(each)
    assert [each for each in expected if moment < each < end][:50] == actual
    passed = [each for each in expected if each <= moment]
    if passed and passed[0] != passed[-1]:  # the window may begin after the last time
        assert passed[-1] == schedule.last_until(moment, place)
