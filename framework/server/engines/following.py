"""Follows the runs that have started, and says how they ended.

The end of an engine on this machine is seen: its process is gone. Elsewhere three things are seen, each with a delay:
the lock of the storage with the name of its holder, the event log of the update, and what the launcher knows. A run is
running while the lock names it or the launcher sees it. Otherwise it is silent, and after some time it is over:

- It has claimed its update: its outcome is that of its events, or LOST.
- It has not: first a request to stop it is stored, then it is LOST. A process that starts later claims the update,
  finds the request and ends. So a run that was given up never becomes an update that works, and the same run is never
  started again, however long its process was on the way.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import datetime

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.run.update.control.stop_requests import StopRequest, StopRequests
from framework.server.engines.kubernetes import KubernetesLauncher
from framework.server.engines.launch import Ended, LauncherKind, Running, Sight, Unknown
from framework.server.engines.launchers import CommandLauncher, Launcher, LocalLauncher
from framework.server.engines.outcomes import end_of, last_words, recorded_end, silent_end
from framework.server.engines.run_records import RunRecord, RunRecords, RunState

GRACE_SECONDS = 60.0
"""How long a network's file system may hide a lock or an event log that another machine has written."""
STOP_SECONDS = 120.0
"""How long a run has for an orderly stop before its launcher ends it."""
GIVEN_UP = "The server waited for its start, and gave up."


def every_launcher(clock: Clock) -> Mapping[str, Launcher]:
    """Return a launcher for each kind."""
    local = LocalLauncher()
    return {
        LauncherKind.LOCAL: local, LauncherKind.SPARK: local, LauncherKind.COMMAND: CommandLauncher(),
        LauncherKind.KUBERNETES: KubernetesLauncher(clock),
    }  # fmt: skip


class Follower:
    """Decides from what is seen of a run whether it is over.

    Args:
        launchers: the launchers by their kind.
        clock: measures the silence, from the first look of this server that saw nothing.
    """

    def __init__(self, launchers: Mapping[str, Launcher], clock: Clock) -> None:
        self._launchers = launchers
        self._clock = clock
        self._silent_since: dict[str, float] = {}
        self._ended_at: dict[str, float] = {}

    def launcher(self, record: RunRecord) -> Launcher:
        """Return the launcher of a run, by the record of the run.

        Raises:
            OSError: this release has no launcher of its kind.
        """
        found = self._launchers.get(record.launch.kind)
        if found is None:
            msg = f"This release has no launcher of the kind {record.launch.kind}."
            raise OSError(msg)
        return found

    def end(self, storage: Storage, records: RunRecords, record: RunRecord, *, is_held: bool) -> RunRecord | None:
        """Return the record of a run with its end; None while it runs, or may.

        Args:
            storage: the storage with its events.
            records: the run records.
            record: a run that is starting or has started.
            is_held: whether the lock of the storage names it as the holder.
        """
        seen = Running() if is_held else self._sight(records, record)
        if isinstance(seen, Running):
            self._silent_since.pop(record.update_id, None)
            if not record.launch.is_here:
                self._end_overdue(storage, records, record)
            return None
        if record.launch.is_here:
            return self.ended_here(storage, records, record, seen)
        if records.is_claimed(record.update_id):
            over = recorded_end(storage, record.update_id) is not None or self._silence(record) >= GRACE_SECONDS
            return self.ended_here(storage, records, record, seen) if over else None
        return self._unclaimed(storage, records, record, seen)

    def ended_here(self, storage: Storage, records: RunRecords, record: RunRecord, seen: Sight) -> RunRecord:
        """Return the record of a run that is over, by its events, else by its exit code and its output."""
        code = seen.code if isinstance(seen, Ended) else None
        return end_of(storage, records, record, exit_code=code, now=self._now)

    def stop(self, record: RunRecord) -> None:
        """Have the launcher of a run end it; without one, only the request in the storage does."""
        launcher = self._launchers.get(record.launch.kind)
        if launcher is not None:
            launcher.stop(record)
            self._ended_at[record.update_id] = self._clock.monotonic()

    def forget(self, record: RunRecord) -> None:
        """Forget a run whose end is recorded."""
        self._silent_since.pop(record.update_id, None)
        self._ended_at.pop(record.update_id, None)
        launcher = self._launchers.get(record.launch.kind)
        if launcher is not None:
            launcher.forget(record)

    @property
    def _now(self) -> str:
        return timestamp_text(self._clock.now())

    def _sight(self, records: RunRecords, record: RunRecord) -> Sight:
        launcher = self._launchers.get(record.launch.kind)
        if launcher is None:
            return Unknown(reason=f"This release has no launcher of the kind {record.launch.kind}.")
        return launcher.look(record, is_alive=records.is_alive(record))

    def _silence(self, record: RunRecord) -> float:
        """Return for how many seconds nothing was seen of a run."""
        now = self._clock.monotonic()
        return now - self._silent_since.setdefault(record.update_id, now)

    def _unclaimed(self, storage: Storage, records: RunRecords, record: RunRecord, seen: Sight) -> RunRecord | None:
        """Return the end of a silent run without a claim; see the module for the order of what is stored."""
        requests = StopRequests(storage)
        asked = requests.of(record.update_id)
        is_stopped = asked is not None and asked.reason != GIVEN_UP
        if self._silence(record) < _patience(record, seen, is_stopped=is_stopped):
            return None
        if asked is None:
            host = socket.gethostname()
            requests.ask(StopRequest(update_id=record.update_id, host=host, reason=GIVEN_UP, since=self._now))
            failpoint("serve.after_give_up")
            if records.is_claimed(record.update_id):
                return None  # it has started meanwhile, maybe before the request was there
        has_failed = isinstance(seen, Ended) and seen.has_failed
        outcome = "CANCELED" if is_stopped else "FAILED" if has_failed else "LOST"
        code = seen.code if isinstance(seen, Ended) else None
        error = None if is_stopped else _error(records, record, seen)
        return record.with_(state=RunState.ENDED, ended_at=self._now, exit_code=code, outcome=outcome, error=error)

    def _end_overdue(self, storage: Storage, records: RunRecords, record: RunRecord) -> None:
        """End a run that was asked to stop and did not: at once if it has not begun, later if it has."""
        asked = StopRequests(storage).of(record.update_id)
        if asked is None:
            return
        since = self._ended_at.get(record.update_id)
        if since is not None and self._clock.monotonic() - since < STOP_SECONDS:
            return
        if records.is_claimed(record.update_id) and self._seconds_since(asked.since) < STOP_SECONDS:
            return
        self.stop(record)

    def _seconds_since(self, text: str | None) -> float:
        try:
            return (self._clock.now() - datetime.fromisoformat(text or "")).total_seconds()
        except (ValueError, TypeError):
            return STOP_SECONDS  # a request of another release


def _patience(record: RunRecord, seen: Sight, *, is_stopped: bool) -> float:
    """Return for how many seconds a run may be silent before it is given up."""
    if isinstance(seen, Ended):
        return 0.0 if seen.has_failed or is_stopped else GRACE_SECONDS
    return min(GRACE_SECONDS, record.launch.start_within_seconds) if is_stopped else record.launch.start_within_seconds


def _error(records: RunRecords, record: RunRecord, seen: Sight) -> str:
    """Return why a run without a claim is over."""
    if isinstance(seen, Ended) and seen.has_failed:
        return last_words(records, record.update_id) or seen.why or silent_end(seen.code) or "It has failed."
    reason = seen.why if isinstance(seen, Ended) else seen.reason if isinstance(seen, Unknown) else ""
    return (
        f"No process has claimed the update in its storage. {reason} The output of launcher {record.launch.name} may "
        "say why. An engine elsewhere needs the folder of the storage, which both machines share. "
        "A process that starts now ends without an update."
    )
