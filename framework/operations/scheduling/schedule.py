"""A schedule of a pipeline, as a value: when it fires, and what happens to a time that is missed, busy or fails."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from framework.foundation.quartz import QuartzSchedule
from framework.foundation.time_zones import zone_of

ON_TIME_SECONDS = 60.0
"""A run that starts this late is still on time."""
_LONGEST_BACKOFF_SECONDS = 3_600.0


class Misfire(StrEnum):
    """What happens to the times at which no server ran."""

    ONCE = "once"
    """The last of them is made up for, within the grace; the others are missed."""
    SKIP = "skip"
    """All of them are missed."""


class Overlap(StrEnum):
    """What happens at a time when an update of the pipeline runs."""

    SKIP = "skip"
    QUEUE = "queue"
    """The run waits for the update's end; only the newest one waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule of one pipeline.

    Args:
        name: its name, unique within the pipeline.
        cron: its times; None for a schedule that only data starts.
        timezone_id: the time zone of its times.
        on_data: whether a change of a source starts a run.
        min_seconds_between_runs: the shortest time between two starts by data.
        misfire: what happens to missed times.
        grace_seconds: a missed time that is older is not made up for.
        overlap: what happens while an update runs.
        retries: how many further attempts a failed run gets.
        backoff_seconds: the time before the second attempt; it doubles with each further one, up to an hour.
        timeout_seconds: an update that runs longer is stopped; None for no limit.
        jitter_seconds: each run starts this much later at most, by a delay that its time determines.
        refresh, full_refresh: the selected datasets; () for all.
    """

    name: str
    cron: QuartzSchedule | None = None
    timezone_id: str = "UTC"
    on_data: bool = False
    min_seconds_between_runs: float = 300.0
    misfire: Misfire = Misfire.ONCE
    grace_seconds: float = 3_600.0
    overlap: Overlap = Overlap.SKIP
    retries: int = 0
    backoff_seconds: float = 60.0
    timeout_seconds: float | None = None
    jitter_seconds: float = 0.0
    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()

    @property
    def zone(self) -> tzinfo:
        """The time zone of its times."""
        return zone_of(self.timezone_id)

    @property
    def fingerprint(self) -> str:
        """A text that changes with its times: a changed schedule makes up for nothing."""
        return f"{'' if self.cron is None else self.cron.expression} {self.timezone_id} {self.on_data}"

    @property
    def latest_seconds(self) -> float:
        """A time that is older when it is seen is missed."""
        return ON_TIME_SECONDS if self.misfire is Misfire.SKIP else max(self.grace_seconds, ON_TIME_SECONDS)

    def jitter(self, fire: datetime) -> timedelta:
        """Return the delay of the run of a time; the same time always has the same delay."""
        digest = hashlib.sha256(f"{self.name} {fire.isoformat()}".encode()).digest()
        return timedelta(seconds=self.jitter_seconds * int.from_bytes(digest[:4], "big") / 2**32)

    def backoff(self, attempt: int) -> timedelta:
        """Return the time between the end of an attempt and the start of the next."""
        return timedelta(seconds=min(self.backoff_seconds * 2.0 ** min(attempt - 1, 30), _LONGEST_BACKOFF_SECONDS))

    def next_times(self, moment: datetime, count: int = 5) -> tuple[datetime, ...]:
        """Return the next times after a moment, in UTC; without jitter."""
        if self.cron is None:
            return ()
        times = self.cron.times_after(moment, self.zone)
        return tuple(each for _, each in zip(range(count), times, strict=False))
