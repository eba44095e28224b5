"""The clock of a sandbox: the machine's time until it is set, then one that only moves when a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.errors import UserError
from framework.sandbox.sandbox_clock import SandboxClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_clock_that_is_not_set_is_the_machines() -> None:
    """Without a test that sets it, nothing is frozen."""
    clock = SandboxClock()
    before = SystemClock().now()

    assert (clock.millis, before <= clock.now()) == (None, True)


@pytest.mark.parametrize(
    ("time", "zone", "expected"),
    [
        ("2026-01-01T12:00", "UTC", NOON),
        ("2026-01-01T12:00", "Europe/Berlin", NOON - timedelta(hours=1)),
        ("2026-01-01T12:00", "+02:00", NOON - timedelta(hours=2)),
        ("2026-01-01T12:00Z", "Europe/Berlin", NOON),
        ("2026-01-01T13:00+01:00", "UTC", NOON),
        ("2026-01-01 12:00:00.1239", "UTC", NOON + timedelta(milliseconds=123)),
        (datetime(2026, 1, 1, 12), "Europe/Berlin", NOON - timedelta(hours=1)),  # noqa: DTZ001 - in the session's zone
        (NOON, "Europe/Berlin", NOON),
    ],
)
def test_a_time_without_offset_is_in_the_sessions_zone(time: str | datetime, zone: str, expected: datetime) -> None:
    """A text means what it means in the pipeline's SQL; an offset is kept."""
    clock = SandboxClock(lambda: zone)
    clock.at(time)

    assert (clock.now(), clock.millis) == (expected, round(expected.timestamp() * 1000))


def test_time_stands_still_until_it_is_moved() -> None:
    """An advance adds up; the time may also be set back."""
    clock = SandboxClock()
    clock.at(NOON)
    clock.advance(days=1, hours=1, minutes=2, seconds=0.5)
    later = clock.now()
    clock.at(NOON)

    assert (later - NOON, clock.now()) == (timedelta(days=1, hours=1, minutes=2, seconds=0.5), NOON)


def test_an_advance_freezes_the_machines_time() -> None:
    """A test may only say how much later it is."""
    clock = SandboxClock()
    before = SystemClock().now()
    clock.advance(hours=1)
    first, second = clock.now(), clock.now()

    assert (first == second, first >= before + timedelta(minutes=59)) == (True, True)


def test_a_text_that_is_no_time_is_refused() -> None:
    """The error shows the spelling that is read."""
    with pytest.raises(UserError) as refused:
        SandboxClock().at("tomorrow")

    assert (refused.value.condition, refused.value.fields["time"]) == ("TEST_TIME_INVALID", "tomorrow")


def test_the_first_commit_of_an_auxiliary_table_is_dated_once(tmp_path: Path) -> None:
    """A later update does not make the table younger, and other tables keep their times."""
    logs = [tmp_path / f"tables/main/default/{name}/_delta_log" for name in ("__sluice_cdc_flights", "flights")]
    first, other = (log / f"{0:020}.json" for log in logs)
    for file in (first, other):
        file.parent.mkdir(parents=True)
        file.touch()
    untouched = other.stat().st_mtime
    clock = SandboxClock()
    clock.at(NOON)
    clock.date_storage(tmp_path)
    clock.advance(days=3)
    clock.date_storage(tmp_path)

    assert (first.stat().st_mtime, other.stat().st_mtime) == (NOON.timestamp(), untouched)
