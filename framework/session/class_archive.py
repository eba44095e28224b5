"""The class-data-sharing archive: Spark's classes in the JVM's memory format, already loaded and verified.

An archive is valid for one Java and one class path, so its name is a hash of both. It is built in the
background after a session ended, by `archive_training`, and no session waits for it. Without one a
session only starts more slowly. File errors of the archive never reach the user.
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
from framework.session.jars import cache_folder
from framework.session.java import Java

# `off`: neither use nor build an archive; `use`: use one, but build none.
VARIABLE = "SLUICE_CLASS_ARCHIVE"
_KEPT = 2
_NEEDED_BYTES = 1 << 30
_STALE_SECONDS = 900


def archive_path(java: Java, classes: str) -> Path:
    """Return the path of the archive for this Java and class path, whether or not it exists.

    The JVM compares size and modification time of each jar with the archived ones, so the name's hash includes them.
    """
    digest = hashlib.sha256(f"{java.program} {java.version} {classes}".encode())
    for jar in _jars(classes):
        with suppress(OSError):
            status = Path(jar).stat()
            digest.update(f"{jar} {status.st_size} {status.st_mtime_ns}".encode())
    return cache_folder() / "classes" / f"{digest.hexdigest()[:24]}.jsa"


def use_options(archive: Path) -> tuple[str, ...]:
    """Return the JVM options that use the archive; () if it does not exist or is disabled."""
    if os.environ.get(VARIABLE) == "off" or not archive.is_file():
        return ()
    with suppress(OSError):
        os.utime(archive)
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def build_options(archive: Path) -> tuple[str, ...]:
    """Return the JVM options that write an archive when the JVM exits."""
    return (f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable", "-Xlog:all=error:stderr")


def build_in_background(archive: Path, clock: Clock) -> None:
    """Start a process that builds the archive.

    Does nothing if the archive exists, if another process builds it, or if disk space is low. The process
    runs in its own session, so the command that started it may end at once.
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
    """Move a finished archive to its path, and delete all but the most recently used ones: each is 190 MB."""
    built.replace(archive)
    by_use = sorted(archive.parent.glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in by_use[_KEPT:]:
        old.unlink(missing_ok=True)


def release_claim(archive: Path) -> None:
    """Release the claim to build this archive."""
    _claim_file(archive).unlink(missing_ok=True)


def _claim(archive: Path, clock: Clock) -> bool:
    """Claim the build and return whether this process has it; a stale claim is replaced."""
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
