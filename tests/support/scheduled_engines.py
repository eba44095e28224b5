"""Engines that run no process, for tests of schedules: each update id starts once, as the server's engines do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from framework.foundation.clock import Clock
from framework.operations.scheduling.due import Start, Stop, update_id_of
from framework.operations.scheduling.schedule import Schedule

PIPELINE_ID = "5a1f7c52-0d38-5b63-9f0e-6c1e5a3b7d10"


@dataclass(frozen=True, kw_only=True)
class FakeEngines:
    """Updates that run for some seconds and end with an outcome, by the key of their start.

    Args:
        clock: the time.
        seconds: how long each update runs.
        outcomes: the outcomes by the text that a key ends with; COMPLETED by default.
    """

    clock: Clock
    seconds: float = 10.0
    outcomes: dict[str, str] = field(default_factory=dict)
    started: dict[str, tuple[Start, datetime]] = field(default_factory=dict)
    stopped: dict[str, datetime] = field(default_factory=dict)
    processes: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def run_state(self, update_id: str) -> str | None:
        """The state of an update by its age."""
        found = self.started.get(update_id)
        if found is None:
            return None
        if update_id in self.stopped:
            return "CANCELED"
        start, since = found
        if self.clock.now() - since < timedelta(seconds=self.seconds):
            return "RUNNING"
        return next((each for end, each in self.outcomes.items() if start.key.endswith(end)), "COMPLETED")

    def is_busy(self, own: str | None) -> bool:
        """Whether an update of a person, or another one of a schedule, runs."""
        running = {each for each in self.started if self.run_state(each) == "RUNNING"}
        return bool(self.others) or bool(running - {own})

    def start(self, start: Start, schedule: Schedule) -> None:
        """Start the update of a key, once."""
        del schedule
        update_id = update_id_of(PIPELINE_ID, start.key)
        if update_id not in self.started:
            self.started[update_id] = (start, self.clock.now())
            self.processes.append(start.key)

    def stop(self, stop: Stop) -> None:
        """Stop an update."""
        self.stopped[stop.update_id] = self.clock.now()
