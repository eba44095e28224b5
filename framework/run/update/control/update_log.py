"""The event log of one update: claimed for its id, and passed on to observers and event hooks."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from framework.declare.registry import Registry
from framework.foundation.clock import Clock
from framework.foundation.errors import UserError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.record.events import Event, Origin
from framework.record.hooks import EventHook, HookRunner
from framework.record.log import EventLog, claim_log
from framework.run.update.control.identity import UpdateIdentity

Observer = Callable[[Event], None]


def claim_id(storage: Storage, identity: UpdateIdentity) -> None:
    """Claim the id of an update, under the lock and before anything else is written.

    A self-chosen id is new. An external id is claimed by creating the first file of its event log, so two updates never
    write to one log, even if the first one was killed early: a retry needs its own id.

    Raises:
        UserError: UPDATE_ID_USED.
    """
    if not identity.is_chosen:
        return
    if not claim_log(storage, identity.update_id):
        raise UserError("UPDATE_ID_USED", update=identity.update_id, request=identity.request_id)
    failpoint("updates.after_claim")


@contextmanager
def update_log(
    pipeline: str,
    storage: Storage,
    identity: UpdateIdentity,
    *,
    clock: Clock,
    observers: Sequence[Observer],
    registry: Registry,
) -> Iterator[EventLog]:
    """Open the event log of an update for the block.

    Args:
        pipeline: the pipeline's name.
        storage: the pipeline's storage.
        identity: the update.
        clock: sets the times of events.
        observers: called with each event when it is recorded.
        registry: the registry with the event hooks.
    """
    found = Origin.of(pipeline, storage.root, identity.update_id)
    origin = replace(found, host=f"{socket.gethostname()}:{os.getpid()}")
    with EventLog(storage, origin, clock) as log:
        for observer in observers:
            log.subscribe(observer)
        hooks = HookRunner(_hooks(registry), log)
        try:
            yield log
        finally:
            hooks.close()


def _hooks(registry: Registry) -> list[EventHook]:
    return [
        EventHook(
            name=spec.name,
            function=registry.hook_functions[spec.name],
            max_allowable_consecutive_failures=spec.max_allowable_consecutive_failures,
        )
        for spec in registry.hooks
    ]
