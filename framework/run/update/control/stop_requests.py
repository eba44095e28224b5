"""Requests to stop an update, as files in its storage, so that any machine that has the storage can stop it.

A request names one update, and an update's id is used once: a request that is left over can't stop another update. The
update that runs looks for its own request, also one that was written before it started, records who asked and why, and
then stops as at Ctrl-C. It does not delete the request. The next update does, under the lock: by then the update that
it names has ended, whether it saw the request, completed before it, or was killed. So no crash separates two effects:
until its deletion a request has no effect but on its own update.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from threading import Event as Signal
from threading import Thread
from typing import Any

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.record.drafts import user_action
from framework.record.events import Event, EventDraft, EventLevel, EventType
from framework.record.log import EVENTS_FOLDER, EventLog, logged_updates
from framework.run.flows.stop_signal import StopSignal

REQUESTS_FOLDER = "requests"
_ACTION = "STOP"
POLL_SECONDS = 2.0
"""The time between two looks for a request."""
_KEPT_DAYS = 30
"""How long a request waits for an update that has not started."""
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
        """Keep a request; a second one for the same update replaces it, and changes nothing once the update stops."""
        self._storage.write_text(self._path(request.update_id), json.dumps(asdict(request)))

    def of(self, update_id: str) -> StopRequest | None:
        """Return the request for an update; None if there is none. A file that can't be parsed is a request, too."""
        text = self._storage.read_text(self._path(update_id))
        if text is None:
            return None
        try:
            found: dict[str, Any] = json.loads(text)
            names = ("user", "host", "reason", "since")
            return StopRequest(update_id=update_id, **{name: found.get(name) for name in names})
        except (ValueError, TypeError, AttributeError):
            return StopRequest(update_id=update_id)

    def delete_old(self, update_id: str, now: datetime) -> None:
        """Delete the requests for updates that have ended; called under the lock, by the only update that runs.

        A request for an update without events may have been written before the update starts, so it stays for 30 days.

        Args:
            update_id: the update that runs: its own request stays.
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

    def _path(self, update_id: str) -> str:
        return self._storage.path(REQUESTS_FOLDER, f"{_PREFIX}{update_id}{_SUFFIX}")


@contextmanager
def stopped_on_request(
    storage: Storage, update_id: str, log: EventLog, stop: StopSignal, *, poll_seconds: float = POLL_SECONDS
) -> Iterator[None]:
    """Set the stop signal of an update when there is a request for it, also at the start of the block.

    The event of the request and the stop are two effects. After a crash in between the update has ended without
    having stopped in order, as after any crash, and its request has no further effect.

    Args:
        storage: the storage of the update.
        update_id: the update.
        log: its event log, in which who asked and why is recorded.
        stop: its stop signal.
        poll_seconds: the time between two looks.
    """
    requests, ended = StopRequests(storage), Signal()

    def look() -> bool:
        try:
            request = requests.of(update_id)
        except OperationError:  # a storage that does not answer; the next look may succeed
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
    """Draft the event of a request, which says who asked and why to those who watch the update."""
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
    """Return whether an event is that of a request to stop its update."""
    if event.event_type is not EventType.USER_ACTION:
        return False
    details: Mapping[str, Any] = event.details.get(EventType.USER_ACTION.value, {})
    return details.get("action") == _ACTION
