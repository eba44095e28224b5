"""Quartz schedules: what is refused with which text, days of clock changes, and years."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from framework.foundation.quartz import QuartzError, parse_quartz

_OSLO = ZoneInfo("Europe/Oslo")


def _times(expression: str, after: datetime, count: int) -> list[str]:
    times = parse_quartz(expression).times_after(after, _OSLO)
    return [next(times).astimezone(_OSLO).strftime("%Y-%m-%d %H:%M:%S") for _ in range(count)]


def test_a_daily_run_at_half_past_two_runs_once_on_both_days_of_clock_changes() -> None:
    """In spring it runs when the clock has jumped to three, in autumn the first time."""
    assert ["2026-03-28 02:30:00", "2026-03-29 03:00:00", "2026-03-30 02:30:00"] == _times(
        "0 30 2 * * ?", datetime(2026, 3, 27, 12, tzinfo=UTC), 3
    )
    first = parse_quartz("0 30 2 * * ?").next_after(datetime(2026, 10, 24, 12, tzinfo=UTC), _OSLO)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert parse_quartz("0 30 2 * * ?").next_after(first, _OSLO) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_six_is_friday_as_in_quartz() -> None:
    """Databricks' `6#3` is the third Friday, which cron reads as a Saturday."""
    assert ["2026-12-18 10:15:00", "2027-01-15 10:15:00"] == _times(
        "0 15 10 ? * 6#3", datetime(2026, 12, 1, tzinfo=UTC), 2
    )


def test_years_far_away_are_found_at_once() -> None:
    """A field of years limits the times; the minutes between them are not tried one by one."""
    schedule = parse_quartz("0 * * ? * * 2027,2090")
    assert schedule.next_after(datetime(2028, 1, 1, tzinfo=UTC), UTC) == datetime(2090, 1, 1, tzinfo=UTC)
    assert schedule.last_until(datetime(2089, 1, 1, tzinfo=UTC), UTC) == datetime(2027, 12, 31, 23, 59, tzinfo=UTC)
    assert schedule.next_after(datetime(2091, 1, 1, tzinfo=UTC), UTC) is None
    assert schedule.last_until(datetime(2026, 1, 1, tzinfo=UTC), UTC) is None


def test_the_last_weekday_of_a_month_is_known() -> None:
    """`LW` is the last day from Monday to Friday; `L` is the last day."""
    assert ["2026-11-30 12:00:00", "2026-12-31 12:00:00"] == _times(
        "0 0 12 LW * ?", datetime(2026, 11, 1, tzinfo=UTC), 2
    )
    assert ["2027-02-28 12:00:00"] == _times("0 0 12 L 2 ?", datetime(2026, 11, 1, tzinfo=UTC), 1)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("30 2 * * 1", "`30 2 * * 1` is `0 30 2 ? * MON` in Quartz"),
        ("* * * * *", "`0 * * * * ?`"),
        ("0 30 2 * * *", "One of the day of the month and the day of the week must be `?`"),
        ("0 30 2 ? * ?", "One of the day of the month and the day of the week must be `?`"),
        ("0 30 2 15W * ?", "`15W` is not supported"),
        ("0 30 2 L-3 * ?", "`L-3` is not supported"),
        ("0 60 2 * * ?", "`60` is not a value of the minutes"),
        ("0 0 0 ? * 0", "`0` is not a value of the day of the week: it has 1 to 7, or SUN to SAT"),
        ("0 0 0 30 2 ?", "It never fires"),
        ("0 0/0 0 * * ?", "`/0` is not a step of the minutes"),
        ("0 0 0 ? * 6#6", "behind `#` is a number from 1 to 5"),
        ("0 0 0 * * ? 2030-2027", "the first year of a range is not after its last"),
        ("0 0 0 ? * MON,6L", "`6L` is not a value of the day of the week"),
        ("0 0,, 0 * * ?", "`` is not a value of the minutes"),
        ("", "It has 0 fields"),
    ],
)
def test_what_can_not_be_honoured_is_refused_with_its_reason(expression: str, text: str) -> None:
    """The text names the part, and for cron's five fields the same schedule in Quartz."""
    with pytest.raises(QuartzError) as raised:
        parse_quartz(expression)
    assert text in str(raised.value)
