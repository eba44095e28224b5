"""The archive of Spark's classes in the JVM's memory format, already loaded and verified.

Java 25 and newer use an AOT cache, which also holds linked classes and profiles of methods; older ones use a
class-data-sharing archive. An archive is valid for one Java and one class path, so its name is a hash of both.
It is built in the background after a session ended, by `framework.archive_training`, and no session waits for
it. Without one a session only starts more slowly. File errors of the archive never reach the user.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from framework.foundation.clock import Clock
from framework.foundation.files.private_files import PRIVATE_UMASK, exposure, make_private_folder
from framework.session.jars import cache_folder
from framework.session.java import Java
from framework.session.jvm_options import OPTION_VARIABLES

# `off`: neither use nor build an archive; `use`: use one, but build none.
VARIABLE = "SLUICE_CLASS_ARCHIVE"
_TRAINING = "framework.archive_training"
_KEPT = 2
_AOT_CACHE, _CLASS_ARCHIVE = ".aot", ".jsa"
_OLDEST_WITH_AOT_CACHE = 25
_NEEDED_BYTES = 1 << 30
_STALE_SECONDS = 900
# Java ends at its start if it gets an AOT cache and any of these.
_OWN_OPTION = re.compile(r"-Xshare|-XX:AOT|-XX:[+-]AOT|SharedArchive|SharedSpaces|ArchiveClassesAtExit")
# The JVM reports a cache that it can't use on standard output, which belongs to results.
_SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")


def archive_path(java: Java, classes: str) -> Path:
    """Return the path of the archive for this Java and class path, whether or not it exists.

    The JVM compares size and modification time of each jar with the archived ones, so the name's hash includes them.
    """
    digest = hashlib.sha256(f"{java.program} {java.version} {classes}".encode())
    for jar in class_path_jars(classes):
        with suppress(OSError):
            status = Path(jar).stat()
            digest.update(f"{jar} {status.st_size} {status.st_mtime_ns}".encode())
    suffix = _AOT_CACHE if java.major >= _OLDEST_WITH_AOT_CACHE else _CLASS_ARCHIVE
    return cache_folder() / "classes" / f"{digest.hexdigest()[:24]}{suffix}"


def excludes_archive(settings: Mapping[str, str]) -> bool:
    """Return whether the user's settings and environment exclude an archive.

    They do with options of their own for class-data sharing or AOT caches, and with a class path of their own: the
    build in the background has neither.
    """
    options = [settings.get(f"spark.driver.{name}", "") for name in ("defaultJavaOptions", "extraJavaOptions")]
    options += [os.environ.get(name, "") for name in OPTION_VARIABLES]
    return bool(settings.get("spark.driver.extraClassPath")) or any(map(_OWN_OPTION.search, options))


def use_options(archive: Path) -> tuple[str, ...]:
    """Return the JVM options that use the archive; () if it does not exist or is disabled, or others can change it."""
    if os.environ.get(VARIABLE) == "off" or not archive.is_file() or exposure(archive.parents[1], archive):
        return ()
    with suppress(OSError):
        os.utime(archive)
    use = (f"-XX:AOTCache={archive}",) if _is_aot(archive) else (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto")
    return (*use, *_SILENT)


def build_options(archive: Path) -> tuple[str, ...]:
    """Return the JVM options that write an archive when the JVM exits."""
    build = f"-XX:AOTCacheOutput={archive}" if _is_aot(archive) else f"-XX:ArchiveClassesAtExit={archive}"
    return (build, *_SILENT)


def build_in_background(archive: Path, clock: Clock) -> None:
    """Start a process that builds the archive.

    Does nothing if the archive exists, if another process builds it, or if disk space is low. The process
    runs in its own session, so the command that started it may end at once.
    """
    if os.environ.get(VARIABLE) in ("off", "use") or archive.exists():
        return
    with suppress(OSError):
        make_private_folder(archive.parent)
        if shutil.disk_usage(archive.parent).free < _NEEDED_BYTES or not _claim(archive, clock):
            return
        subprocess.Popen(  # noqa: S603 - this Python, our own module
            [sys.executable, "-m", _TRAINING, str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            umask=PRIVATE_UMASK,
        )


def publish(built: Path, archive: Path) -> None:
    """Move a finished archive to its path, and delete all but the most recently used ones: each is 200 to 250 MB."""
    built.replace(archive)
    archives = [*archive.parent.glob(f"*{_AOT_CACHE}"), *archive.parent.glob(f"*{_CLASS_ARCHIVE}")]
    by_use = sorted(archives, key=lambda file: file.stat().st_mtime, reverse=True)
    for old in by_use[_KEPT:]:
        old.unlink(missing_ok=True)


def release_claim(archive: Path) -> None:
    """Release the claim to build this archive."""
    _claim_file(archive).unlink(missing_ok=True)


def _is_aot(archive: Path) -> bool:
    return archive.suffix == _AOT_CACHE


def _claim(archive: Path, clock: Clock) -> bool:
    """Claim the build and return whether this process has it; a stale claim, or one of the future, is replaced."""
    file = _claim_file(archive)
    with suppress(FileNotFoundError):
        if abs(clock.now().timestamp() - file.stat().st_mtime) > _STALE_SECONDS:
            file.unlink(missing_ok=True)
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _claim_file(archive: Path) -> Path:
    return archive.with_suffix(".building")


def class_path_jars(classes: str) -> list[str]:
    """Return the jars of a class path."""
    found: list[str] = []
    for entry in classes.split(":"):
        folder = Path(entry).parent
        found += sorted(str(jar) for jar in folder.glob("*.jar")) if entry.endswith("/*") else [entry]
    return found
