"""The clock port: the only access to time and sleep, so that tests can replace both."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and sleep."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never decreases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after the given number of seconds."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        return datetime.now(tz=UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never decreases."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Suspend this thread for the given number of seconds."""
        time.sleep(seconds)


class FrozenClock(SystemClock):
    """A clock that stands still at a time; durations and sleep are the machine's.

    Args:
        millis: the time in milliseconds since 1970.
    """

    def __init__(self, millis: int) -> None:
        self._now = datetime.fromtimestamp(millis / 1000, tz=UTC)

    def now(self) -> datetime:
        """Return the time at which the clock stands."""
        return self._now


def milliseconds(text: str) -> int:
    """Return the epoch milliseconds of a time in ISO 8601."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def timestamp_text(instant: datetime) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds and a Z: `2026-01-31T09:30:00.123Z`."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
