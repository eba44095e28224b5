"""The class-data-sharing archive: Spark's classes as the JVM holds them in memory, loaded and verified once.

An archive fits one Java and one class path, so its name is made of both. It is built in the
background after a session ended, by `archive_training`, and is never waited for; without one a
session starts more slowly and that is all. No trouble with it ever reaches the user.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from framework.foundation.clock import Clock
from framework.session.cache_folder import cache_folder
from framework.session.java import Java

# `off`: use none and build none; `use`: build none.
VARIABLE = "SLUICE_CLASS_ARCHIVE"
_KEPT = 2
_NEEDED_BYTES = 1 << 30
_STALE_SECONDS = 900


def archive_path(java: Java, classes: str) -> Path:
    """Where the archive of this Java and class path is, or would be.

    The JVM compares size and time of each jar with those it archived, so they are in the name.
    """
    digest = hashlib.sha256(f"{java.program} {java.version} {classes}".encode())
    for jar in _jars(classes):
        with suppress(OSError):
            status = Path(jar).stat()
            digest.update(f"{jar} {status.st_size} {status.st_mtime_ns}".encode())
    return cache_folder() / "classes" / f"{digest.hexdigest()[:24]}.jsa"


def use_options(archive: Path) -> tuple[str, ...]:
    """The JVM options that use the archive; none when there is none, or when it is switched off."""
    if os.environ.get(VARIABLE) == "off" or not archive.is_file():
        return ()
    with suppress(OSError):
        os.utime(archive)
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def build_options(archive: Path) -> tuple[str, ...]:
    """The JVM options that write an archive when the JVM exits."""
    return (f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable", "-Xlog:all=error:stderr")


def build_in_background(archive: Path, clock: Clock) -> None:
    """Start a process that builds the archive, if there is none, nobody builds it, and there is room.

    The process belongs to nobody: the command that started it may end at once.
    """
    if os.environ.get(VARIABLE) in ("off", "use") or archive.exists():
        return
    with suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(archive.parent).free < _NEEDED_BYTES or not _claim(archive, clock):
            return
        subprocess.Popen(  # noqa: S603 - this Python, our own module
            [sys.executable, "-m", "framework.session.archive_training", str(archive)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip


def publish(built: Path, archive: Path) -> None:
    """Give a finished archive its name, and delete all but the ones used last: each is 190 MB."""
    built.replace(archive)
    by_use = sorted(archive.parent.glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in by_use[_KEPT:]:
        old.unlink(missing_ok=True)


def release_claim(archive: Path) -> None:
    """Say that nobody builds this archive any more."""
    _claim_file(archive).unlink(missing_ok=True)


def _claim(archive: Path, clock: Clock) -> bool:
    """Whether this process may build: the claim's file is ours, or was left by one that died long ago."""
    file = _claim_file(archive)
    with suppress(FileNotFoundError):
        if clock.now().timestamp() - file.stat().st_mtime > _STALE_SECONDS:
            file.unlink(missing_ok=True)
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _claim_file(archive: Path) -> Path:
    return archive.with_suffix(".building")


def _jars(classes: str) -> list[str]:
    found: list[str] = []
    for entry in classes.split(":"):
        folder = Path(entry).parent
        found += sorted(str(jar) for jar in folder.glob("*.jar")) if entry.endswith("/*") else [entry]
    return found
