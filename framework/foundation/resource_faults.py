"""Conditions of a machine that has run out of something: disk, quota, open files, or a disk that may be written.

The operating system reports them by a number, and Java by the text of an exception, in whatever wraps it. None heals by
itself within minutes, so no retry follows.
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
"""The conditions of a machine that has run out of something."""

ACCESS_DENIED = "FILE_ACCESS_DENIED"
"""The condition of a file that Java may not open. Java does not say whether it wanted to read or to write."""

FILE_CONDITIONS = RESOURCE_CONDITIONS | {ACCESS_DENIED}
"""The conditions by which no retry opens a file, until somebody mends the cause."""

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
"""A row of the user's may have the same words, so those of an exception of files must be before them."""

# Not a program that can't be started, nor a connector, whose files have a scheme: `session_fault` names these.
_DENIED = re.compile(
    r"(?:(?:IO|FileSystem|FileNotFound|AccessControl)Exception\b(?!: Cannot run program)[^\n]*?Permission denied"
    r"|AccessDeniedException: (?:file:)?/)"
)
_PATTERNS = {condition: re.compile(rf"{_RAISED}(?:{text})") for condition, text in _TEXTS.items()}


def resource_condition(text: str) -> str | None:
    """Return the condition that the text of an exception reports; None if it reports something else.

    Examples:
        >>> resource_condition("java.io.IOException: No space left on device")
        'DISK_FULL'
        >>> resource_condition("java.io.IOException: Permission denied") is None
        True
    """
    return next((condition for condition, pattern in _PATTERNS.items() if pattern.search(text)), None)


def file_condition(text: str) -> str | None:
    """Return the condition of a file that the text of a Java exception reports, `ACCESS_DENIED` included; else None.

    Examples:
        >>> file_condition("java.io.FileNotFoundException: /t/part-0.parquet (Permission denied)")
        'FILE_ACCESS_DENIED'
        >>> file_condition('java.io.IOException: Cannot run program "python": error=13, Permission denied') is None
        True
    """
    return resource_condition(text) or (ACCESS_DENIED if _DENIED.search(text) else None)


def file_fault(error: OSError, path: object, condition: str) -> OperationError:
    """Return the error of a file that can't be read or written.

    Args:
        error: what the operating system reports.
        path: the file.
        condition: the condition of any other cause, with the fields `path` and `problem`.
    """
    found = _NUMBERS.get(error.errno or 0)
    if found is None:
        return OperationError(condition, path=path, problem=error)
    free = free_space([str(path)]) if found == DISK_FULL else ""
    return OperationError(found, place=path, problem="; ".join(filter(None, (error.strerror, free))))


def free_space(places: Iterable[str]) -> str:
    """Return which of some local places has the fewest bytes left on its disk, as a clause; empty if none is local.

    Spark deletes what it could not write to its end, so a disk that was full may have space again.
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
