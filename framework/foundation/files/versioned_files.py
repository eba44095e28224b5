"""Files that several processes change at the same moment: each version is a file of its own, which one of them creates.

The version with the highest number counts. A change of version `n` creates `n + 1`, then deletes versions that were
replaced ten minutes ago: a crash in between leaves files that have no effect. So no lock is held, and none remains when
a process is killed. This is the only compare-and-swap of the storage: requests and the lease of an update use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf

from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage

NONE = -1
"""The version of a file that does not exist."""

_KEPT_SECONDS = 600.0
"""How long a replaced version stays, by the clock of the file system.

A writer can take the name of a version that was replaced only after that is deleted. Then the version that follows is
gone or older than the one that it has created; otherwise it is the change of a writer that has read this one.
"""

_VERSION = re.compile(r"(.+?)(?:~~(\d+))?\.json")


def newest_versions(names: Iterable[str]) -> dict[str, int]:
    """Return the highest version of each file among the names in a folder.

    Examples:
        >>> newest_versions(["a.json", "b.json", "b~~2.json", "b~~1.json"])
        {'a.json': 0, 'b.json': 2}
    """
    found: dict[str, int] = {}
    for match in filter(None, map(_VERSION.fullmatch, names)):
        name = f"{match[1]}.json"
        found[name] = max(found.get(name, NONE), int(match[2] or 0))
    return found


def read_newest(storage: Storage, folder: str, name: str) -> tuple[int, str | None]:
    """Return the newest version of a file and its text; `NONE` and None if there is no such file.

    Args:
        storage: the storage of the folder.
        folder: the folder.
        name: the name of the file, which ends with `.json`.
    """
    while True:
        version = newest_versions(storage.list_names(folder)).get(name, NONE)
        text = None if version == NONE else storage.read_text(version_path(folder, name, version))
        if text is not None or version == NONE:
            return version, text
        # Another process has replaced it since.


def replace_version(storage: Storage, folder: str, name: str, version: int, text: str) -> bool:
    """Replace a version of a file; False, without an effect, if another process has done so since it was read.

    Args:
        storage: the storage of the folder.
        folder: the folder.
        name: the name of the file.
        version: the version that was read.
        text: the new text, which no other process writes.
    """
    created = version_path(folder, name, version + 1)
    # S3 lets several processes create a file: that of the last one stays.
    if not storage.create_text(created, text) or storage.read_text(created) != text:
        return False
    times = _times(storage, folder, name)
    newest, written = max(times, default=NONE), times.get(version + 1, inf)
    if newest > version + 1 and times.get(version + 2, -inf) < written:
        storage.delete_tree(created)
        return False
    failpoint("versions.before_cleaning")
    for each in sorted(times.keys() - {newest}):
        if times[newest] - times.get(each + 1, -inf) > _KEPT_SECONDS:
            storage.delete_tree(version_path(folder, name, each))
    return True


def _times(storage: Storage, folder: str, name: str) -> dict[int, float]:
    """Return when each version of a file was written."""
    matches = ((file, _VERSION.fullmatch(file.name)) for file in storage.list_files(folder))
    return {
        int(match[2] or 0): file.modified_at
        for file, match in matches
        if match is not None and f"{match[1]}.json" == name
    }


def version_path(folder: str, name: str, version: int) -> str:
    """Return the path of a version of a file."""
    return f"{folder}/{name}" if not version else f"{folder}/{name.removesuffix('.json')}~~{version}.json"
