"""A clock for tests whose time only advances by sleeping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """The clock port for tests: `sleep` advances the time and returns at once.

    Examples:
        >>> clock = ManualClock()
        >>> clock.sleep(90)
        >>> clock.now().isoformat()
        '2026-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime = START) -> None:
        self.start = start
        self.elapsed_seconds = 0.0

    def now(self) -> datetime:
        """Return the start plus the time slept since."""
        return self.start + timedelta(seconds=self.elapsed_seconds)

    def monotonic(self) -> float:
        """Return the seconds slept since the start."""
        return self.elapsed_seconds

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.elapsed_seconds += seconds
