"""The clock port: the only way to the time and to sleep, so that tests need neither."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time, a time that never goes back, and sleep."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        return datetime.now(tz=UTC)

    def monotonic(self) -> float:
        """Seconds since the machine started, or thereabouts."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Put this thread to sleep."""
        time.sleep(seconds)


def timestamp_text(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and a Z: `2026-01-31T09:30:00.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
