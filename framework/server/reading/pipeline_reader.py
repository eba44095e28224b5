"""The state of one pipeline, read from its storage: the lock, the new events, the run records."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from framework.foundation.errors import SluiceError
from framework.foundation.files.local_storage import LocalStorage
from framework.record.events import Event
from framework.record.reader import read_events
from framework.run.update.control.lock_holder import LockHolder, lock_holder
from framework.run.update.control.stop_requests import StopRequests
from framework.server.engines.outcomes import owner_of
from framework.server.engines.run_records import RunRecord, RunRecords, RunState
from framework.server.pipelines import PipelineEntry
from framework.server.reading.history import UpdateHistory
from framework.server.reading.log_tail import LogTail
from framework.server.values import Activity, PipelineState, RequestRow, UpdateRow, fault_of, folded
from framework.views.flow_board import FlowBoard, FlowBoardTracker, FlowProgress

_RECENT = 14
_KEPT_BOARDS = 400
_EARLY = frozenset({"CREATED", "QUEUED", "WAITING_FOR_RESOURCES", "INITIALIZING", "SETTING_UP_TABLES", "RESETTING"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one look at a storage found.

    Args:
        events: new events, oldest first.
        updates: updates with another state.
        flows: the latest progress of flows that have changed, each with its update.
        has_new_state: whether the state of the pipeline is another one.
    """

    events: tuple[Event, ...] = ()
    updates: tuple[UpdateRow, ...] = ()
    flows: tuple[tuple[str, FlowProgress], ...] = ()
    has_new_state: bool = False


class PipelineReader:
    """Follows the storage of one pipeline; `look` is called by one thread at a time, the others by any.

    The lock is read before the events. An update that has neither the lock nor an end in the events that were read
    after it has lost its process: had it ended in between, its end would be among them.

    Args:
        entry: the pipeline.
        cache: the user's cache, with the index of the log.
    """

    def __init__(self, entry: PipelineEntry, cache: Path) -> None:
        self.entry = entry
        self.records = RunRecords(cast("LocalStorage", entry.storage))
        self.holder: LockHolder | None = None
        self.state = PipelineState()
        self._cache = cache
        self._history = UpdateHistory(entry)
        self._tail: LogTail | None = None
        self._records_token = ""
        self._tracker: tuple[str, FlowBoardTracker] | None = None
        self._rows: tuple[UpdateRow, ...] = ()
        self._boards: dict[str, FlowBoard] = {}
        self._keeping = threading.Lock()
        self._seen: tuple[LockHolder | None, frozenset[str]] | None = None

    def look(self) -> Changes:
        """Read what is new in the storage; a storage that can't be read becomes a fault of the state."""
        try:
            return self._look()
        except SluiceError as error:
            fault = fault_of(error)
            before, self.state = self.state, replace(self.state, fault=fault)
            return Changes(has_new_state=before != self.state)

    @property
    def rows(self) -> tuple[UpdateRow, ...]:
        """The known updates, oldest first."""
        return self._rows

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The pipeline's run records, as last read, in the order of their requests."""
        return tuple(self._history.records.values())

    @property
    def requests(self) -> tuple[RequestRow, ...]:
        """The known requests with their attempts, newest first."""
        return folded(self._rows)

    def row(self, update_id: str) -> UpdateRow | None:
        """Return an update; None if it is unknown."""
        return next((each for each in self._rows if each.update_id == update_id), None)

    def board(self, update_id: str) -> FlowBoard:
        """Return the board of an update, from its events."""
        tracker = self._tracker  # the thread that looks may replace it
        if tracker is not None and tracker[0] == update_id:
            return tracker[1].board
        return _board(self.events_of(update_id))

    def kept_board(self, row: UpdateRow) -> FlowBoard:
        """Return the board of an update; that of an ended one is read once."""
        if not row.has_ended:
            return self.board(row.update_id)
        found = self._boards.get(row.update_id)
        if found is None:
            found = self.board(row.update_id)
            with self._keeping:
                while len(self._boards) >= _KEPT_BOARDS:
                    del self._boards[next(iter(self._boards))]
                self._boards[row.update_id] = found
        return found

    def events_of(self, update_id: str) -> list[Event]:
        """Return all events of an update, oldest first."""
        found = read_events(self.entry.storage, update_id=update_id)
        return [event for event in found if event.origin.pipeline_name == self.entry.name]

    def _look(self) -> Changes:
        holder, events = lock_holder(self.entry.storage), self._events()
        records = self._read_records()
        running = self._running(holder)
        seen, self._seen = self._seen, (holder, running)
        if not events and not records and seen == self._seen and self.state.fault is None:
            return self._stopping_changes(holder)
        for event in events:
            self._history.apply(event)
        flows = self._flows(events)
        before = {each.update_id: each for each in self._rows}
        self.holder, self._rows = holder, self._history.rows(running)
        updates = [each for each in self._rows if before.get(each.update_id) != each]
        state = self._state(holder)
        new, self.state = state != self.state, state
        return Changes(
            events=tuple(event for event in events if event.origin.pipeline_name == self.entry.name),
            updates=() if seen is None else tuple(updates), flows=flows, has_new_state=new,
        )  # fmt: skip

    def _stopping_changes(self, holder: LockHolder | None) -> Changes:
        """Return the changes of a look without news: a request to stop may have come."""
        if self.state.update is None:
            return Changes()
        state = replace(self.state, activity=self._activity(self.state.update, holder))
        new, self.state = state != self.state, state
        return Changes(has_new_state=new)

    def _events(self) -> list[Event]:
        if self._tail is None:
            self._tail = LogTail(self.entry.storage)
            self._history.load(self._cache)
        return self._tail.poll()

    def _read_records(self) -> bool:
        """Read the run records again; return whether one has changed.

        The token of the folder saves that only while no run is open: two writes may have the same time, and the second
        of them would not be seen.
        """
        token = self.records.token  # taken before the records, so that one that is written meanwhile is read next time
        if token == self._records_token and not any(each.is_open for each in self._history.records.values()):
            return False
        before = self._history.records
        self._history.take(self.records.list_all())
        self._records_token = token
        return before != self._history.records

    def _running(self, holder: LockHolder | None) -> frozenset[str]:
        opened = [each for each in self._history.records.values() if each.is_open]
        alive = {each.update_id for each in opened if self._lives(each)}
        return frozenset(alive | ({holder.update_id} if holder is not None else set()))

    def _lives(self, record: RunRecord) -> bool:
        """Whether a run's process lives, or is about to start."""
        return record.state is RunState.STARTING or self.records.is_alive(record)

    def _flows(self, events: Iterable[Event]) -> tuple[tuple[str, FlowProgress], ...]:
        found: dict[tuple[str, str], FlowProgress] = {}
        for event in events:
            update_id = event.origin.update_id
            if event.origin.pipeline_name != self.entry.name:
                continue
            if self._tracker is None or self._tracker[0] != update_id:
                tracker = FlowBoardTracker()
                for earlier in self.events_of(update_id):
                    if (earlier.sequence, earlier.timestamp) < (event.sequence, event.timestamp):
                        tracker(earlier)
                self._tracker = (update_id, tracker)
            progress = self._tracker[1](event)
            if progress is not None:
                found[update_id, progress.flow] = progress
        return tuple((update_id, progress) for (update_id, _), progress in found.items())

    def _state(self, holder: LockHolder | None) -> PipelineState:
        open_rows = [each for each in self._rows if not each.has_ended]
        held = next((each for each in open_rows if holder is not None and each.update_id == holder.update_id), None)
        update = held or next(iter(open_rows), None)
        ended = [each for each in self._rows if each.has_ended]
        return PipelineState(
            activity=self._activity(update, holder),
            update=update,
            last=max(ended, key=lambda each: each.ended_at or each.created_at or "", default=None),
            recent=tuple(reversed(self.requests[:_RECENT])),
        )

    def _activity(self, update: UpdateRow | None, holder: LockHolder | None) -> Activity:
        if update is None:
            # A holder without events of its own: it may be another pipeline's, or one that has just ended.
            return Activity.STARTING if holder is not None and self._may_be_own(holder) else Activity.IDLE
        if update.state == "STOPPING" or StopRequests(self.entry.storage).of(update.update_id) is not None:
            return Activity.STOPPING
        if update.state == "WAITING_FOR_RESOURCES":
            return Activity.WAITING_FOR_RESOURCES
        return Activity.STARTING if update.state in _EARLY else Activity.RUNNING

    def _may_be_own(self, holder: LockHolder) -> bool:
        """Whether an update that is not known yet may be of this pipeline: several may share a storage."""
        return self.row(holder.update_id) is None and owner_of(self.entry.storage, self.records, holder.update_id) in {
            None,
            self.entry.name,
        }


def _board(events: Iterable[Event]) -> FlowBoard:
    tracker = FlowBoardTracker()
    for event in events:
        tracker(event)
    return tracker.board
