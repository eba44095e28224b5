"""Stops an update on any machine by a request in its storage; without Spark if the storage is local."""

from __future__ import annotations

import socket

from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.files.storage_port import Storage
from framework.foundation.processes import user_name
from framework.record.events import EventType
from framework.record.reader import read_events
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.lock_holder import lock_holder
from framework.run.update.control.stop_requests import POLL_SECONDS, StopRequest, StopRequests
from framework.views.stopping import ENDED, StopReport


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
        update_id: the update, which stops at its start if it has not started yet; None for the running one.
        reason: why, for its event log.
        wait_seconds: the longest wait for its end.

    Raises:
        UserError: UPDATE_IDENTITY_INVALID.
        OperationError: STORAGE_NOT_WRITABLE.
    """
    if update_id is not None:
        UpdateIdentity.of(update_id=update_id)
    holder = lock_holder(storage)
    named = update_id or (None if holder is None else holder.update_id)
    if named is None:
        return StopReport()
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


def _state(storage: Storage, update_id: str) -> str | None:
    found = read_events(storage, type=EventType.UPDATE_PROGRESS, update_id=update_id, last=1)
    return found[-1].details[EventType.UPDATE_PROGRESS.value]["state"] if found else None
