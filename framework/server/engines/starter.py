"""Starts and stops updates: a durable request, a queue, and one process for each running update.

A request has these durable effects, in this order. After a crash between two of them the next server goes on:

1. The run record ACCEPTED is created. Without it, nobody was told that the request is accepted.
2. The log of the run is locked, and its record is STARTING. No process exists, so the lock is free after a crash. The
   run starts again if its log is empty and no process has claimed the update's id. A command that starts a run
   elsewhere writes into the log before anything else, so it is never repeated.
3. The process starts, and inherits the lock. After a crash it is adopted by the lock, although its id is unknown.
4. The record has the process. After a crash it is adopted by that.
5. The process claims the update's id in the event log. From then on, no process ever starts for this run again.
6. The process ends, and the record is ENDED, with the outcome in the event log; see `following` for when that is.

A stop is a request in the storage before anything else happens, so a run that has not started never starts.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import OperationError, SluiceError, UserError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.local_storage import LocalStorage
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.lock_holder import LockHolder, lock_holder
from framework.run.update.control.stop_requests import StopRequest, StopRequests
from framework.server.engines.following import Follower
from framework.server.engines.launch import Ended, Launch
from framework.server.engines.launchers import Launcher
from framework.server.engines.leftovers import check_started
from framework.server.engines.outcomes import canceled, owner_of, recorded_end
from framework.server.engines.run_records import RunRecord, RunRecords, RunState
from framework.server.engines.start_request import StartRequest, engine_command
from framework.server.engines.storage_claim import StorageClaim
from framework.server.pipelines import PipelineEntry
from framework.server.values import Fault, fault_of
from framework.views.stopping import StopReport

Command = Callable[[PipelineEntry, StartRequest, UpdateIdentity], tuple[str, ...]]
Plan = Callable[[PipelineEntry, StartRequest, UpdateIdentity, tuple[str, ...]], tuple[tuple[str, ...], Launch]]
"""Returns how an engine with a command line is started: the command line on this machine, and its launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An accepted request: its update, its state, and its place in the queue; None once it has started."""

    update_id: str
    request_id: str
    state: str
    place: int | None = None


class _Served:
    """What the starter keeps for one pipeline."""

    def __init__(self, entry: PipelineEntry) -> None:
        self.entry = entry
        storage = cast("LocalStorage", entry.storage)
        self.records = RunRecords(storage)
        self.claim = StorageClaim(storage)

    @property
    def open_runs(self) -> list[RunRecord]:
        """The pipeline's runs that have not ended, in the order of their requests."""
        return [each for each in self.records.list_all() if each.is_open and each.pipeline == self.entry.name]


class Starter:
    """Starts the updates of the served pipelines; its methods may be called from any thread.

    Args:
        entries: the pipelines that are served now.
        launchers: start processes, by the kind of launcher.
        clock: the source of times.
        most_engines: how many engines may run at the same time on this machine.
        command: the command line of the engine for a request.
        plan: decides how that is started; on this machine by default.
    """

    def __init__(
        self, entries: Callable[[], Sequence[PipelineEntry]], launchers: Mapping[str, Launcher], clock: Clock, *,
        most_engines: int, command: Command = engine_command, plan: Plan | None = None,
    ) -> None:  # fmt: skip
        self.most_engines = most_engines
        self._entries = entries
        self._follower = Follower(launchers, clock)
        self._clock = clock
        self._command = command
        self._plan = plan or _here
        self._lock = threading.RLock()
        self._served: dict[str, _Served] = {}
        self._claims: dict[str, StorageClaim] = {}
        self._busy: frozenset[str] = frozenset()
        self.faults: dict[str, Fault] = {}
        """Why the updates of a pipeline can't be started or settled now, by its id."""

    def request(self, entry: PipelineEntry, request: StartRequest) -> Accepted:
        """Accept a request, and start its update if there is room.

        Raises:
            UserError: UPDATE_REQUEST_INVALID, UPDATE_IDENTITY_INVALID, SERVE_KEY_USED, SERVE_SPEC_GONE.
            OperationError: UPDATE_ALREADY_RUNNING, SERVE_STORAGE_TAKEN, STORAGE_NOT_WRITABLE.
            After each of them, nothing is written.
        """
        request.check()
        with self._lock:
            served = self._of(entry)
            identity = request.identity(entry)
            if not self._claim(served):
                raise OperationError("SERVE_STORAGE_TAKEN", path=entry.storage.root, holder=served.claim.holder)
            known = served.records.read(identity.update_id)
            if known is not None and request.is_compared and dict(known.body) != dict(request.body):
                raise UserError("SERVE_KEY_USED", update=known.update_id)
            if known is None:
                check_started(entry, identity.update_id)
                self._check_free(served, request, identity)
                served.records.add(self._record(entry, request, identity))
                failpoint("serve.after_accept")
                self.tick()
            return self._accepted(served, identity)

    def stop(
        self, entry: PipelineEntry, *, update_id: str | None = None, user: str | None = None, reason: str | None = None
    ) -> StopReport:
        """Ask an update to stop; the one that runs, else the first that waits, unless one is named.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        with self._lock:
            served = self._of(entry)
            holder, runs = self._own_holder(served), served.open_runs
            named = update_id or (holder.update_id if holder is not None else next((r.update_id for r in runs), None))
            if named is None:
                return StopReport()
            record = served.records.read(named)
            if record is not None and record.pipeline != entry.name:
                return StopReport()
            runs_now = holder is not None and holder.update_id == named
            if not runs_now and (record is None or not record.is_open):
                return StopReport(update_id=named, state=None if record is None else record.outcome, has_ended=True)
            since = timestamp_text(self._clock.now())
            StopRequests(entry.storage).ask(
                StopRequest(update_id=named, user=user, host=socket.gethostname(), reason=reason, since=since)
            )
            failpoint("serve.after_stop_request")
            if record is not None and record.state is RunState.ACCEPTED and self._claim(served):
                served.records.write(canceled(record, since))
                return StopReport(update_id=named, state="CANCELED", has_ended=True)
            if record is not None and record.is_open and not served.records.is_claimed(named):
                self._follower.stop(record)  # it starts, and may look for its request only after half a minute
            return StopReport(update_id=named, holder=holder if runs_now else None, state="STOPPING")

    def _own_holder(self, served: _Served) -> LockHolder | None:
        """Return the holder of the storage's lock, if it is an update of the pipeline or may be one."""
        entry, holder = served.entry, lock_holder(served.entry.storage)
        if holder is None:
            return None
        owner = owner_of(entry.storage, served.records, holder.update_id)
        is_alone = all(each.place != entry.place or each.name == entry.name for each in self._entries())
        return holder if owner == entry.name or (owner is None and is_alone) else None

    def tick(self) -> None:
        """Record the runs that have ended, adopt those of an earlier server, and start those that fit."""
        with self._lock:
            waiting: list[tuple[_Served, RunRecord]] = []
            busy: set[str] = set()
            for entry in self._entries():
                served = self._of(entry)
                with self._noting_faults(entry):
                    waiting += [(served, record) for record in self._settled(served, busy)]
            self._busy = frozenset(busy)
            for served, record in sorted(waiting, key=lambda found: (found[1].order, found[1].update_id)):
                with self._noting_faults(served.entry, is_later=True):
                    self._start_if_free(served, record)

    @contextmanager
    def _noting_faults(self, entry: PipelineEntry, *, is_later: bool = False) -> Iterator[None]:
        """Keep a fault of one storage from the other pipelines; the next tick tries again."""
        try:
            yield
        except SluiceError as error:
            self.faults[entry.pipeline_id] = fault_of(error)
        else:
            if not is_later:
                self.faults.pop(entry.pipeline_id, None)

    @property
    def other_server(self) -> str | None:
        """The server that starts the updates of a storage which this one only reads; None if there is none."""
        return next((each.holder for each in [*self._claims.values()] if each.is_elsewhere), None)

    def serves(self, entry: PipelineEntry) -> bool:
        """Return whether this server starts the updates of a pipeline: no other one has claimed its storage."""
        with self._lock:
            return self._claim(self._of(entry))

    @property
    def running(self) -> int:
        """The number of engines on this machine, whoever started them."""
        return len(self._busy)

    def waiting(self) -> list[str]:
        """Return the updates that wait, in the order in which they start."""
        with self._lock:
            found = [
                record
                for entry in self._entries()
                for record in self._readable(entry)
                if record.state is RunState.ACCEPTED
            ]
        return [each.update_id for each in sorted(found, key=lambda record: (record.order, record.update_id))]

    def _readable(self, entry: PipelineEntry) -> list[RunRecord]:
        try:
            return self._of(entry).open_runs
        except SluiceError:
            return []  # the next tick notes it

    def close(self) -> None:
        """Give up the claims on storages; running updates go on."""
        with self._lock:
            for claim in self._claims.values():
                claim.release()
            self._claims = {}

    def _of(self, entry: PipelineEntry) -> _Served:
        found = self._served.get(entry.pipeline_id)
        if found is None or found.entry is not entry:
            found = self._served[entry.pipeline_id] = _Served(entry)
            # Several pipelines may share a storage, which has one claim.
            found.claim = self._claims.setdefault(entry.place, found.claim)
        return found

    def _claim(self, served: _Served) -> bool:
        return served.claim.take()

    def _check_free(self, served: _Served, request: StartRequest, identity: UpdateIdentity) -> None:
        """Check that no other attempt of the request is open, and no update runs if the request does not wait.

        An update whose end is in its events is no obstacle, although its process takes some seconds to end: a client
        that has seen the end may start the next one, which waits for the process.

        Raises:
            OperationError: UPDATE_ALREADY_RUNNING.
        """
        storage, holder = served.entry.storage, lock_holder(served.entry.storage)
        runs = [each for each in served.open_runs if recorded_end(storage, each.update_id) is None]
        same = next((each for each in runs if each.request_id == identity.request_id), None)
        if same is not None:
            raise _already(served, f"update {same.update_id} of the same request", same.update_id)
        if request.waits:
            return
        if holder is not None and recorded_end(storage, holder.update_id) is None:
            raise _already(served, _who(holder), holder.update_id)
        if runs:
            raise _already(served, f"update {runs[0].update_id}, which starts or waits", runs[0].update_id)

    def _record(self, entry: PipelineEntry, request: StartRequest, identity: UpdateIdentity) -> RunRecord:
        now = self._clock.now()
        argv, launch = self._plan(entry, request, identity, self._command(entry, request, identity))
        return RunRecord(
            update_id=identity.update_id, request_id=identity.request_id, pipeline=entry.name,
            attempt=identity.attempt, cause=identity.cause, user=request.user, reason=request.ours.get("reason"),
            body=dict(request.body), argv=argv, launch=launch, accepted_at=timestamp_text(now),
            order=f"{now.timestamp():020.6f}",
        )  # fmt: skip

    def _accepted(self, served: _Served, identity: UpdateIdentity) -> Accepted:
        record = served.records.read(identity.update_id)
        state = RunState.ENDED if record is None else record.state
        waiting = self.waiting() if state is RunState.ACCEPTED else []
        names = {RunState.ACCEPTED: "WAITING_FOR_RESOURCES", RunState.ENDED: (record and record.outcome) or "LOST"}
        return Accepted(
            update_id=identity.update_id,
            request_id=identity.request_id if record is None else record.request_id,
            state=names.get(state, "STARTING"),
            place=waiting.index(identity.update_id) + 1 if identity.update_id in waiting else None,
        )

    def _settled(self, served: _Served, busy: set[str]) -> list[RunRecord]:
        """Settle the open runs of a pipeline, add the running updates to `busy`, and return the runs that wait."""
        holder = lock_holder(served.entry.storage)
        if holder is not None and holder.host == socket.gethostname():
            busy.add(holder.update_id)
        runs = served.open_runs
        if not runs or not self._claim(served):
            return []  # another server starts them
        waiting = []
        for run in runs:
            record = self._after_crash(served, run)
            if record.state is RunState.ACCEPTED:
                waiting.append(record)
            elif not self._has_ended(served, record, is_held=_holds(holder, record)) and record.launch.is_here:
                busy.add(record.update_id)
        return waiting

    def _after_crash(self, served: _Served, record: RunRecord) -> RunRecord:
        """Return the record of a run; of one that no process was started for, as accepted."""
        records = served.records
        if record.state is not RunState.STARTING or records.is_alive(record) or records.is_claimed(record.update_id):
            return record
        text = records.log_text(record.update_id)
        if text is not None and text[0]:
            return record  # its process has ended with a word
        return records.write(record.with_(state=RunState.ACCEPTED))

    def _has_ended(self, served: _Served, record: RunRecord, *, is_held: bool) -> bool:
        """Return whether a run is over, and record its end."""
        ended = self._follower.end(served.entry.storage, served.records, record, is_held=is_held)
        if ended is None:
            return False
        self._end(served, ended)
        return True

    def _end(self, served: _Served, ended: RunRecord) -> None:
        """Record the end of a run, which the events decide if there are any: a crash before it changes nothing."""
        served.records.write(ended)
        self._follower.forget(ended)  # not before it is written: the exit code is known only once
        served.records.delete_old()

    def _start_if_free(self, served: _Served, record: RunRecord) -> None:
        storage = served.entry.storage
        if StopRequests(storage).of(record.update_id) is not None:
            served.records.write(canceled(record, timestamp_text(self._clock.now())))
            return
        # Also those of other pipelines in the storage, which has one lock.
        others = [each for each in served.records.list_all() if each.is_open and each.state is not RunState.ACCEPTED]
        is_full = record.launch.is_here and len(self._busy) >= self.most_engines
        if is_full or others or lock_holder(storage) is not None:
            return
        self._start(served, record)

    def _start(self, served: _Served, record: RunRecord) -> None:
        """Start the process of a run; see the module for what a crash leaves."""
        records, now = served.records, timestamp_text(self._clock.now())
        try:
            check_started(served.entry, record.update_id)
        except UserError as error:
            records.write(canceled(record, now).with_(outcome="FAILED", error=error.render()))
            return
        log = records.open_log(record.update_id)
        if log is None:
            return  # a process of this run lives
        with log:
            storage, seen = served.entry.storage, Ended()
            if records.is_claimed(record.update_id):
                self._end(served, self._follower.ended_here(storage, records, record, seen))
                return
            record = records.write(record.with_(state=RunState.STARTING, started_at=now, host=socket.gethostname()))
            failpoint("serve.after_claim")
            try:
                handle = self._follower.launcher(record).start(record, log, served.entry.spec_file.parent)
            except OSError as error:
                failed = record.with_(error=f"The program can't be started: {error}")
                self._end(served, self._follower.ended_here(storage, records, failed, seen))
                return
            if record.launch.is_here:
                self._busy |= {record.update_id}
            failpoint("serve.after_spawn")
            records.write(record.with_(state=RunState.STARTED, pid=handle.pid, pid_started=handle.pid_started))


def _here(
    entry: PipelineEntry, request: StartRequest, identity: UpdateIdentity, argv: tuple[str, ...]
) -> tuple[tuple[str, ...], Launch]:
    del entry, request, identity
    return argv, Launch()


def _holds(holder: LockHolder | None, record: RunRecord) -> bool:
    return holder is not None and holder.update_id == record.update_id


def _who(holder: LockHolder) -> str:
    return f"update {holder.update_id}, process {holder.pid} on {holder.host}, since {holder.since}"


def _already(served: _Served, holder: str, update_id: str) -> OperationError:
    return OperationError(
        "UPDATE_ALREADY_RUNNING", holder=holder, path=str(Path(served.entry.storage.path("update.lock"))),
        advice="Stop it, wait for its end, or ask with `queue`.", update=update_id,
    )  # fmt: skip
