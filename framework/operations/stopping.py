"""Stops an update on any machine by a request in its storage; without Spark if the storage is local."""

from __future__ import annotations

import socket
import uuid

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.processes import user_name
from framework.record.events import EventType
from framework.record.log import EVENTS_FOLDER, logged_updates
from framework.record.reader import read_events
from framework.run.update.control.lock_holder import LockHolder, lock_holder
from framework.run.update.control.stop_requests import POLL_SECONDS, StopRequest, StopRequests
from framework.views.stopping import ENDED, StopReport

_FEWEST_CHARACTERS = 4
"""The shortest beginning of an id that selects an update."""


def stop_update(
    storage: Storage,
    clock: Clock,
    *,
    update_id: str | None = None,
    reason: str | None = None,
    wait_seconds: float = 0.0,
) -> StopReport:
    """Request an update to stop, and wait until it has ended.

    Args:
        storage: the pipeline's storage.
        clock: the clock for the time of the request, and for the wait.
        update_id: the id of the update, in any spelling of a UUID, or its first four or more characters; an update
            that has not started yet needs its whole id, and stops at its start. None for the running update.
        reason: why, for its event log.
        wait_seconds: the longest wait for its end.

    Raises:
        UserError: UPDATE_NOT_FOUND, UPDATE_AMBIGUOUS.
        OperationError: STORAGE_NOT_WRITABLE.
    """
    holder = lock_holder(storage)
    if update_id is None and holder is None:
        return StopReport()
    named = holder.update_id if update_id is None and holder is not None else _meant(storage, update_id or "", holder)
    runs = holder is not None and holder.update_id == named
    state = _state(storage, named)
    if not runs and state in ENDED:
        return StopReport(update_id=named, state=state, has_ended=True)
    # Even without a holder: a suspended machine may have lost its lease and continue later.
    now = timestamp_text(clock.now())
    StopRequests(storage).ask(
        StopRequest(update_id=named, user=user_name(), host=socket.gethostname(), reason=reason or None, since=now)
    )
    has_ended = _ends(storage, named, clock, wait_seconds) if runs else state is not None
    return StopReport(
        update_id=named, holder=holder if runs else None, state=_state(storage, named), has_ended=has_ended
    )


def _ends(storage: Storage, update_id: str, clock: Clock, wait_seconds: float) -> bool:
    """Wait until nobody or another process has the lock; return False if that takes too long."""
    deadline = clock.monotonic() + wait_seconds
    while True:
        holder = lock_holder(storage)
        if holder is None or holder.update_id != update_id:
            return True
        if clock.monotonic() >= deadline:
            return False
        clock.sleep(POLL_SECONDS / 4)


def _meant(storage: Storage, text: str, holder: LockHolder | None) -> str:
    """Return the id of the update that a text means.

    Raises:
        UserError: UPDATE_NOT_FOUND, UPDATE_AMBIGUOUS.
    """
    known = logged_updates(storage.list_names(storage.path(EVENTS_FOLDER)))
    known |= frozenset() if holder is None else {holder.update_id}
    given = text.strip().lower()
    try:
        return str(uuid.UUID(given))
    except ValueError:
        pass
    start = given.replace("-", "")
    found = [each for each in sorted(known) if each.replace("-", "").startswith(start)]
    found = found if len(start) >= _FEWEST_CHARACTERS else []
    if not found:
        raise UserError("UPDATE_NOT_FOUND", update=text, fewest=_FEWEST_CHARACTERS)
    if len(found) > 1:
        raise UserError("UPDATE_AMBIGUOUS", update=text, ids=", ".join(found))
    return found[0]


def _state(storage: Storage, update_id: str) -> str | None:
    """Return the state in which an update ended, else its last state; None if it has none.

    An end is final, wherever it is in the order of the log.
    """
    events = read_events(storage, type=EventType.UPDATE_PROGRESS, update_id=update_id)
    states = [str(event.details[EventType.UPDATE_PROGRESS.value]["state"]) for event in events]
    return next((state for state in reversed(states) if state in ENDED), states[-1] if states else None)
