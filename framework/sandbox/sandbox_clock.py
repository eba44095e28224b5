"""The clock of a sandbox: the machine's time, until a test sets it; then it stands still."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from framework.cdc.model.reserved_names import AUXILIARY_PREFIX
from framework.foundation.clock import SystemClock
from framework.foundation.errors import UserError
from framework.foundation.time_zones import zone_of

_MILLISECOND = 0.001
_FIRST_COMMITS = f"*/*/*/{AUXILIARY_PREFIX}*/_delta_log/{0:020}.json"  # of tables and of private tables


class SandboxClock(SystemClock):
    """The time of a sandbox's updates: the machine's own, until it is set.

    While it is set, an update has one time. It is that of `current_timestamp()` and its relatives in queries,
    expectations and AUTO CDC, of events, and of files that arrive. Python's own `datetime.now()` and watermarks, which
    follow the event times, do not depend on it.

    Args:
        zone: returns the time zone of texts without one.

    Examples:
        >>> clock = SandboxClock()
        >>> clock.at("2026-01-01T12:00")
        >>> clock.advance(hours=1, minutes=30)
        >>> clock.now().isoformat()
        '2026-01-01T13:30:00+00:00'
    """

    def __init__(self, zone: Callable[[], str] = lambda: "UTC") -> None:
        self._zone = zone
        self._set: datetime | None = None
        self._last_file_seconds = float("-inf")
        self._dated: set[tuple[Path, int]] = set()

    @property
    def millis(self) -> int | None:
        """The time at which the clock stands, in milliseconds since 1970; None if it is not set."""
        return None if self._set is None else round(self._set.timestamp() * 1000)

    def at(self, time: str | datetime) -> None:
        """Set the time; without an offset it is in the session's time zone. It may be earlier than the present one.

        Args:
            time: a time in ISO 8601, such as `2026-01-01T12:00` or `2026-01-01T12:00:00Z`; milliseconds count.

        Raises:
            UserError: TEST_TIME_INVALID.
        """
        try:
            found = time if isinstance(time, datetime) else datetime.fromisoformat(time)
        except (ValueError, TypeError) as error:
            raise UserError("TEST_TIME_INVALID", time=str(time)) from error
        local = found if found.tzinfo is not None else found.replace(tzinfo=zone_of(self._zone()))
        self._set = _whole_milliseconds(local)

    def advance(
        self, *, weeks: float = 0, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Move the time forward. A clock that was not set stands still from now on."""
        passed = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._set = _whole_milliseconds(self.now() + passed)

    def now(self) -> datetime:
        """Return the present time, timezone-aware, in UTC."""
        return super().now() if self._set is None else self._set

    def date_file(self, path: str | Path) -> None:
        """Give a file the present time as its modification time, if the clock is set.

        Each file is a millisecond later than the last one at least: Spark reads files in the order of their times, and
        ignores one that is a week older than the newest.
        """
        if self._set is None:
            return
        seconds = max(self._set.timestamp(), self._last_file_seconds + _MILLISECOND)
        self._last_file_seconds = seconds
        nanoseconds = round(seconds * 1000) * 1_000_000
        os.utime(path, ns=(nanoseconds, nanoseconds))

    def date_storage(self, storage: str | Path) -> None:
        """Date the new auxiliary tables of AUTO CDC after an update, whose age decides when old deletes are removed."""
        if self._set is None:
            return
        for first in Path(storage).glob(_FIRST_COMMITS):
            mark = (first, first.stat().st_mtime_ns)
            if mark not in self._dated:
                self.date_file(first)
                self._dated.add((first, first.stat().st_mtime_ns))


def _whole_milliseconds(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(microsecond=time.microsecond // 1000 * 1000)
