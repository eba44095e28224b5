"""Files and folders outside a storage: readable only by their user, and checked before code in them is run.

On systems without POSIX owners and modes, the permissions of folders are the system's defaults.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE_UMASK = 0o077
"""The umask of a process that writes private files only."""

_FOLDER, _FILE = 0o700, 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for this user only, regardless of the umask.

    Raises:
        OSError: it can't be created.
    """
    if not folder.parent.exists():
        make_private_folder(folder.parent)
    folder.mkdir(mode=_FOLDER, exist_ok=True)


def write_private_file(path: Path, text: str, *, is_synced: bool = False) -> None:
    """Write a new file that only this user can read.

    Args:
        path: the file.
        text: its content.
        is_synced: whether it is on the disk afterwards.

    Raises:
        OSError: it exists, or can't be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def replace_private_file(path: Path, text: str) -> None:
    """Write a file that only this user can read; whoever reads it, or finds it after a crash, has all of it.

    Raises:
        OSError: it can't be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # an earlier process with this number has died
    write_private_file(part, text, is_synced=True)
    part.replace(path)


def exposure(base: Path, path: Path) -> str | None:
    """Return why another user could have changed the contents of a file or folder; None if nobody could.

    Root, this user and the owner of this program are trusted, because a cache may be part of an image.

    Args:
        base: the folder below which Sluice chooses all names; the user chooses its location.
        path: the file or folder, `base` itself or below it; a missing path is safe.
    """
    if os.name != "posix":
        return None
    trusted = {0, os.geteuid(), Path(__file__).stat().st_uid}
    return next(filter(None, (_fault(each, trusted) for each in _chain(base, path))), None) or _open_parent(base)


def _chain(base: Path, path: Path) -> Iterator[Path]:
    """Yield the base and each folder down to the path."""
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
    """Remove the group's write permission, which some umasks give to a group with this user as its only member."""
    if status.st_mode & stat.S_IWOTH or status.st_uid != os.geteuid():
        return False
    path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IWGRP)
    return True


def _open_parent(base: Path) -> str | None:
    """Return the fault of a parent folder that lets others replace the base: world-writable without a sticky bit."""
    mode = base.parent.stat().st_mode if base.parent.exists() else 0
    return f"others can replace {base}" if mode & stat.S_IWOTH and not mode & stat.S_ISVTX else None
