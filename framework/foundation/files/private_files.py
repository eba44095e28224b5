"""Files and folders outside of a storage: only their user can read them, and code in them is run only if it is safe.

On systems without POSIX's owners and modes, folders are as the system makes them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE_UMASK = 0o077
"""The umask of a process that writes only files of its user."""

_FOLDER, _FILE = 0o700, 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for this user only, whatever the umask is.

    Raises:
        OSError: it can't be created.
    """
    if not folder.parent.exists():
        make_private_folder(folder.parent)
    folder.mkdir(mode=_FOLDER, exist_ok=True)


def write_private_file(path: Path, text: str) -> None:
    """Write a new file that only this user can read.

    Raises:
        OSError: it exists, or can't be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def exposure(base: Path, path: Path) -> str | None:
    """Return why somebody else could have changed what is in a file or folder; None if nobody could.

    Whoever owns this program is trusted, as are root and this user: a cache may be part of an image.

    Args:
        base: the folder from which on all names are ours; where it is belongs to the user.
        path: the file or folder, in `base` or the same; what does not exist can't be changed.
    """
    if os.name != "posix":
        return None
    trusted = {0, os.geteuid(), Path(__file__).stat().st_uid}
    return next(filter(None, (_fault(each, trusted) for each in _chain(base, path))), None) or _open_parent(base)


def _chain(base: Path, path: Path) -> Iterator[Path]:
    """Yield the base, and each folder down to the path."""
    yield base
    for part in path.relative_to(base).parts:
        base = base / part
        yield base


def _fault(path: Path, trusted: set[int]) -> str | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"{path} can't be examined: {error.strerror}"
    if stat.S_ISLNK(status.st_mode):
        return f"{path} is a symbolic link"
    if status.st_uid not in trusted:
        return f"{path} belongs to the user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE and not _is_tightened(path, status):
        return f"others can write to {path}"
    return None


def _is_tightened(path: Path, status: os.stat_result) -> bool:
    """Take the group's permission to write, which some umasks give to the group of this user alone."""
    if status.st_mode & stat.S_IWOTH or status.st_uid != os.geteuid():
        return False
    path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IWGRP)
    return True


def _open_parent(base: Path) -> str | None:
    """Return the fault of a folder in which others can replace the base: all can write to it, without a sticky bit."""
    mode = base.parent.stat().st_mode if base.parent.exists() else 0
    return f"others can replace {base}" if mode & stat.S_IWOTH and not mode & stat.S_ISVTX else None
