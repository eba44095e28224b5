"""The place of the quarantine table in a storage, for readers without Spark."""

from __future__ import annotations

from framework.foundation.files.storage_port import Storage

QUARANTINE_FOLDER = "quarantine"
"""The folder of the quarantine table in a storage."""


def has_quarantine(storage: Storage) -> bool:
    """Return whether a storage has a quarantine table: without one, no row was ever quarantined."""
    return storage.exists(storage.path(QUARANTINE_FOLDER))
