"""The free space of the storage's disk now: on a full disk, updates can't even record why they failed."""

from __future__ import annotations

import shutil

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.resource_faults import DISK_FULL, RESOURCE_CONDITIONS, free_space

_LEAST_BYTES = 1 << 20
"""A commit of a small table takes a few kilobytes, an update a few hundred."""


def disk_fault(storage: Storage) -> OperationError | None:
    """Return why no update can write to the storage now; None if it is writable, or not a local folder."""
    if not storage.can_append or not storage.exists(storage.root):
        return None
    try:
        storage.check_writable()
        free = shutil.disk_usage(storage.root).free
    except OperationError as error:  # the user who examines a pipeline may not be the one who runs it
        return error if error.condition in RESOURCE_CONDITIONS else None
    if free >= _LEAST_BYTES:
        return None
    return OperationError(DISK_FULL, place=storage.root, problem=free_space([storage.root]))
