"""Whether this process may write a local file or folder, without writing to it: asked before anything is written."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritable:
    """Why this process can't write a file or folder: a clause, and whether its whole file system is read-only."""

    problem: str
    is_mounted_so: bool = False


def why_not_writable(path: str) -> Unwritable | None:
    """Return why this process can't write a file or folder; None if it can.

    Of one that does not exist, the nearest folder above it counts, in which it would be created.

    Args:
        path: an absolute path of this machine's file system.
    """
    place = Path(path)
    try:
        status = _status(place)
        while status is None:
            place = place.parent
            status = _status(place)
    except OSError as error:
        return Unwritable(problem=f"{place} can't be opened ({error.strerror})")
    wanted = os.W_OK | (os.X_OK if stat.S_ISDIR(status.st_mode) else 0)
    if os.access(place, wanted, effective_ids=os.access in os.supports_effective_ids):
        return None
    where = "it" if place == Path(path) else str(place)
    if os.name == "posix" and os.statvfs(place).f_flag & os.ST_RDONLY:
        return Unwritable(problem=f"{where} is on a file system that is mounted read-only", is_mounted_so=True)
    owner, rights = _user(status.st_uid), stat.filemode(status.st_mode)
    return Unwritable(problem=f"{where} belongs to {owner} with the rights {rights}, and this process runs as {_me()}")


def _status(place: Path) -> os.stat_result | None:
    """Return what the file system knows of a file or folder; None if there is none."""
    try:
        return place.stat()
    except FileNotFoundError:
        return None


def _me() -> str:
    return _user(os.geteuid()) if os.name == "posix" else "another user"


def _user(number: int) -> str:
    """Return the name of a user of this machine; without one, as in a container, the number."""
    with suppress(ImportError, KeyError):
        import pwd

        return pwd.getpwuid(number).pw_name
    return f"user {number}"
