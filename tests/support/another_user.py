"""Another user of the machine: what it can read and change, and what it does before we come."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NEEDS_ROOT = pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can act as another user")
_NOBODY = 65_534


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder in which every user can create files, as in `/tmp`; those of this process have no umask."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-open-"))
    folder.chmod(0o1777)
    before = os.umask(0)
    try:
        yield folder
    finally:
        os.umask(before)
        shutil.rmtree(folder, ignore_errors=True)


def as_another_user(command: str) -> str:
    """Run a command of the shell as the user `nobody`, and return its output; what it may not do is left out."""
    done = subprocess.run(
        ["/bin/sh", "-c", command], user=_NOBODY, group=_NOBODY, extra_groups=(), cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


@contextmanager
def acting_as_another_user() -> Iterator[None]:
    """Let this process open files as the user `nobody`, as long as the block lasts; its JVM goes on as root."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(_NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def exposed_to_another_user(folder: Path) -> list[str]:
    """Return the files below a folder that another user can read or change, and the folders that it can change."""
    found = as_another_user(f"find '{folder}' -mindepth 1 \\( -type f -readable -o -writable ! -type l ! -type s \\)")
    return sorted(str(Path(line).relative_to(folder)) for line in found.splitlines())
