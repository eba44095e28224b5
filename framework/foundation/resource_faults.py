"""Conditions of an exhausted machine: full disk, quota, too many open files, or a read-only file system.

The operating system reports them as numbers, and Java in the text of an exception, which may be wrapped. None of them
resolves itself within minutes, so they are not retried.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from framework.foundation.errors import OperationError

DISK_FULL = "DISK_FULL"
RESOURCE_CONDITIONS = frozenset({DISK_FULL, "DISK_QUOTA_EXCEEDED", "FILE_SYSTEM_READ_ONLY", "TOO_MANY_OPEN_FILES"})
"""The conditions of an exhausted machine."""

ACCESS_DENIED = "FILE_ACCESS_DENIED"
"""The condition of a file to which Java has no access. Java does not report whether it was a read or a write."""

FILE_CONDITIONS = RESOURCE_CONDITIONS | {ACCESS_DENIED}
"""The conditions of files for which a retry is useless until someone fixes the cause."""

_NUMBERS = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: "DISK_QUOTA_EXCEEDED",
    errno.EROFS: "FILE_SYSTEM_READ_ONLY",
    errno.EMFILE: "TOO_MANY_OPEN_FILES",
    errno.ENFILE: "TOO_MANY_OPEN_FILES",
}
_TEXTS = {
    DISK_FULL: r"No space left on device|There is not enough space on the disk",
    "DISK_QUOTA_EXCEEDED": r"[Dd]isk ?(?:space )?quota|quota",
    "FILE_SYSTEM_READ_ONLY": r"Read-only file system",
    "TOO_MANY_OPEN_FILES": r"Too many open files",
}
_RAISED = r"(?:(?:IO|FileSystem|FileNotFound|Socket|QuotaExceeded)Exception|OSError|IOError|FSError)\b[^\n]*?"
"""The exception names that must precede these words, because a user's row may contain the same words."""

# Excludes programs that can't be started, and connectors, whose paths have a scheme: `session_fault` handles these.
_DENIED = re.compile(
    r"(?:(?:IO|FileSystem|FileNotFound|AccessControl)Exception\b(?!: Cannot run program)[^\n]*?Permission denied"
    r"|AccessDeniedException: (?:file:)?/)"
)
_PATTERNS = {condition: re.compile(rf"{_RAISED}(?:{text})") for condition, text in _TEXTS.items()}


def resource_condition(text: str) -> str | None:
    """Return the resource condition in the text of an exception; None if it reports something else.

    Examples:
        >>> resource_condition("java.io.IOException: No space left on device")
        'DISK_FULL'
        >>> resource_condition("java.io.IOException: Permission denied") is None
        True
    """
    return next((condition for condition, pattern in _PATTERNS.items() if pattern.search(text)), None)


def file_condition(text: str) -> str | None:
    """Return the file condition in the text of a Java exception, `ACCESS_DENIED` included; None for other texts.

    Examples:
        >>> file_condition("java.io.FileNotFoundException: /t/part-0.parquet (Permission denied)")
        'FILE_ACCESS_DENIED'
        >>> file_condition('java.io.IOException: Cannot run program "python": error=13, Permission denied') is None
        True
    """
    return resource_condition(text) or (ACCESS_DENIED if _DENIED.search(text) else None)


def file_fault(error: OSError, path: object, condition: str) -> OperationError:
    """Return the error for a file that can't be read or written.

    Args:
        error: the error of the operating system.
        path: the file.
        condition: the condition for all other causes, with the fields `path` and `problem`.
    """
    found = _NUMBERS.get(error.errno or 0)
    if found is None:
        problem = _file_above(path) if error.errno == errno.ENOTDIR else ""
        return OperationError(condition, path=path, problem=problem or error)
    free = free_space([str(path)]) if found == DISK_FULL else ""
    return OperationError(found, place=path, problem="; ".join(filter(None, (error.strerror, free))))


def _file_above(path: object) -> str:
    """Return which folder of a path is a file, as a clause; empty if none is."""
    above = next((folder for folder in Path(str(path).removeprefix("file:")).parents if folder.exists()), None)
    return "" if above is None or above.is_dir() else f"{above} is a file, and not a folder"


def free_space(places: Iterable[str]) -> str:
    """Return the least free space among the disks of local paths, as a clause; empty if no path is local.

    Spark deletes files that it could not finish, so a disk that was full may have free space again.
    """
    found = []
    for place in places:
        path = Path(place.removeprefix("file:"))
        folder = next((each for each in (path, *path.parents) if each.exists()), None) if path.is_absolute() else None
        if folder is not None:
            with suppress(OSError):
                found.append((shutil.disk_usage(folder).free, str(path)))
    if not found:
        return ""
    free, place = min(found, key=lambda each: each[0])
    return f"{free:,} bytes are free at {place}"
