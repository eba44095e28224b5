"""Requests to stop an update: files in its storage, so that any machine with access to the storage can stop it.

A request names one update, and an update's id is used once, so a leftover request can't stop another update. The
running update looks for its own request, including one written before it started. It records who asked and why, then
stops as at Ctrl-C. It does not delete the request; the next update does, under the lock. By then the named update has
ended, whether it saw the request, completed before it, or was killed. So no crash separates two effects: until its
deletion, a request affects only its own update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from threading import Event as Signal
from threading import Thread
from typing import Any

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import UNUSABLE, StoredFormat
from framework.record.drafts import user_action
from framework.record.events import Event, EventDraft, EventLevel, EventType
from framework.record.log import EVENTS_FOLDER, EventLog, logged_updates
from framework.run.flows.stop_signal import StopSignal

REQUESTS_FOLDER = "requests"
_FORMAT = StoredFormat(1)
_ACTION = "STOP"
POLL_SECONDS = 2.0
"""The time between two checks for a request."""
_KEPT_DAYS = 30
"""How long a request for an update that has not started is kept."""
_PREFIX, _SUFFIX = "stop-", ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A request to stop an update.

    Args:
        update_id: the update.
        user: who asked; None if unknown.
        host: the machine of the process that asked.
        reason: why, in the user's words; None without a reason.
        since: when, in ISO 8601.
    """

    update_id: str
    user: str | None = None
    host: str | None = None
    reason: str | None = None
    since: str | None = None


class StopRequests:
    """The stop requests of one storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def ask(self, request: StopRequest) -> None:
        """Store a request. It replaces an earlier one for the same update, without effect once the update stops.

        A request of another release for the update stays as it is: it stops the update, too.
        """
        try:
            self._read(request.update_id)
        except OperationError as error:
            if error.condition == "STORED_FORMAT_UNKNOWN":
                return
        self._storage.write_text(self._path(request.update_id), _FORMAT.text(asdict(request)))

    def of(self, update_id: str) -> StopRequest | None:
        """Return the request for an update; None if there is none.

        The name of the file is the request: a file that is damaged or of another release also stops its update.
        """
        try:
            return self._read(update_id)
        except OperationError as error:
            if error.condition not in UNUSABLE:
                raise
            return StopRequest(update_id=update_id)

    def delete_old(self, update_id: str, now: datetime) -> None:
        """Delete the requests for updates that have ended; called under the lock, by the only running update.

        A request for an update without events may be for an update that has not started yet, so it stays for 30 days.

        Args:
            update_id: the running update, whose own request stays.
            now: the current time.
        """
        files = {
            file.name.removeprefix(_PREFIX).removesuffix(_SUFFIX): file
            for file in self._storage.list_files(self._storage.path(REQUESTS_FOLDER))
            if file.name.startswith(_PREFIX) and file.name.endswith(_SUFFIX)
        }
        if not files:
            return
        ended = logged_updates(self._storage.list_names(self._storage.path(EVENTS_FOLDER)))
        oldest = (now - timedelta(days=_KEPT_DAYS)).timestamp()
        for named, file in files.items():
            if named != update_id and (named in ended or file.modified_at < oldest):
                self._storage.delete_tree(self._path(named))

    def _read(self, update_id: str) -> StopRequest | None:
        names = ("user", "host", "reason", "since")
        return _FORMAT.read(
            self._storage,
            self._path(update_id),
            lambda found: StopRequest(update_id=update_id, **{name: found.get(name) for name in names}),
        )

    def _path(self, update_id: str) -> str:
        return self._storage.path(REQUESTS_FOLDER, f"{_PREFIX}{update_id}{_SUFFIX}")


@contextmanager
def stopped_on_request(
    storage: Storage, update_id: str, log: EventLog, stop: StopSignal, *, poll_seconds: float = POLL_SECONDS
) -> Iterator[None]:
    """Set an update's stop signal when there is a request for it, including one from before the block.

    The request's event and the stop are two effects. After a crash in between, the update has ended without an orderly
    stop, as after any crash, and its request has no further effect.

    Args:
        storage: the storage of the update.
        update_id: the update.
        log: the update's event log, which records who asked and why.
        stop: its stop signal.
        poll_seconds: the time between two checks.
    """
    requests, ended = StopRequests(storage), Signal()

    def look() -> bool:
        try:
            request = requests.of(update_id)
        except OperationError:  # the storage does not respond; the next check may succeed
            return False
        if request is None:
            return False
        try:
            log.record(stop_event(request))
        finally:  # also if the log can't be written
            stop.set()
        return True

    def watch() -> None:
        while not ended.wait(poll_seconds):
            if look():
                return

    if look():
        yield
        return
    thread = Thread(target=watch, name="sluice-stop-requests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stop_event(request: StopRequest) -> EventDraft:
    """Draft the event of a request, which tells users who watch the update who asked and why."""
    where = "" if request.host is None else f" on {request.host}"
    why = "" if request.reason is None else f": {request.reason}"
    draft = user_action(
        action=_ACTION,
        user_name=request.user,
        message=f"{request.user or 'A user'}{where} asked to stop this update{why}.",
        reason=request.reason,
        more={"host": request.host, "since": request.since},
    )
    return replace(draft, level=EventLevel.WARN)


def is_stop_event(event: Event) -> bool:
    """Return whether an event records a request to stop its update."""
    if event.event_type is not EventType.USER_ACTION:
        return False
    details: Mapping[str, Any] = event.details.get(EventType.USER_ACTION.value, {})
    return details.get("action") == _ACTION
