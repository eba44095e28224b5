"""Modification times of a source's folders: a hint that there are new files, much cheaper than a listing."""

from __future__ import annotations

import os
from collections.abc import Mapping

from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat

_FORMAT = StoredFormat(1)
_MOST = 64
_FILE = "listed.json"


def keep_times(storage: Storage, folder: str, times: Mapping[str, int]) -> None:
    """Store the times of the most recently changed folders.

    Args:
        storage: keeps the checkpoint.
        folder: the folder of the source in the checkpoint.
        times: the modification time of each local folder before it was listed, in nanoseconds.
    """
    newest = sorted(times, key=lambda each: (-times[each], each))[:_MOST]
    storage.write_text(f"{folder}/{_FILE}", _FORMAT.text({"times": {each: times[each] for each in newest}}))


def has_changed(storage: Storage, folder: str) -> bool:
    """Return whether a folder has changed since the last listing; if False, there may still be new files."""
    times = _FORMAT.cached(storage.read_text(f"{folder}/{_FILE}"), "times")
    return isinstance(times, dict) and any(modified_ns(each) != time for each, time in times.items())


def modified_ns(folder: str) -> int | None:
    """Return the modification time of a local folder; None if it can't be looked up."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - a listing has many folders
    except OSError:
        return None
