"""Files that several processes change concurrently: each version is a separate file, created by one process.

The highest version is current. A change of version `n` creates `n + 1`, then deletes versions that were replaced ten
minutes ago; a crash in between leaves files without effect. So no lock is held, and none remains after a process is
killed. It is the only compare-and-swap of the storage, used by requests and the lease of an update.
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
"""How long a replaced version is kept, by the clock of the file system.

A slow writer can reuse the name of a replaced version only after that version is deleted. In that case, the next
version is missing or older than the file that the writer created. Otherwise, the next version was written by a
process that had read the writer's file.
"""

_VERSION = re.compile(r"(.+?)(?:~~(\d+))?\.json")


def newest_versions(names: Iterable[str]) -> dict[str, int]:
    """Return the highest version of each file, given the names in a folder.

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
    """Return the newest version of a file and its text; `NONE` and None if the file does not exist.

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
        # Another process has replaced it since the listing.


def replace_version(storage: Storage, folder: str, name: str, version: int, text: str) -> bool:
    """Replace a version of a file; return False, without effect, if another process has replaced it since the read.

    Args:
        storage: the storage of the folder.
        folder: the folder.
        name: the name of the file.
        version: the version that was read.
        text: the new text, which no other process may write.
    """
    created = version_path(folder, name, version + 1)
    # On S3 several processes can create the same file; the last writer wins.
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
    """Return the modification time of each version of a file."""
    matches = ((file, _VERSION.fullmatch(file.name)) for file in storage.list_files(folder))
    return {
        int(match[2] or 0): file.modified_at
        for file, match in matches
        if match is not None and f"{match[1]}.json" == name
    }


def version_path(folder: str, name: str, version: int) -> str:
    """Return the path of a version of a file."""
    return f"{folder}/{name}" if not version else f"{folder}/{name.removesuffix('.json')}~~{version}.json"
