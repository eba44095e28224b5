"""Times are written one way only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from framework.foundation.clock import SystemClock, timestamp_text


def test_times_are_written_in_utc_with_milliseconds() -> None:
    """A time of another zone is written as the same instant in UTC, with the suffix Z."""
    moment = datetime(2026, 1, 31, 10, 30, 0, 123456, tzinfo=timezone(timedelta(hours=1)))
    assert timestamp_text(moment) == "2026-01-31T09:30:00.123Z"


def test_the_system_clock_knows_its_zone() -> None:
    """`now` is aware and in UTC, and the other time does not go back."""
    clock = SystemClock()
    before = clock.monotonic()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= before
