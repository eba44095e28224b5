"""Deletes or moves a file that was read, on the local file system or on any Hadoop file system."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

from framework.engine.files.hadoop_files import hadoop_path, located_uri
from framework.engine.jvm.java_errors import Py4JJavaError
from framework.foundation.errors import OperationError
from framework.foundation.wording import one_line
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    decoded,
)
from framework.sources.cloud_files.settings.options import Cleaning, CloudFilesOptions, folder_before_glob, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?(?=/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remover:
    """Removes files of a source.

    Args:
        spark: for file systems other than the local one.
        options: `cleaning` and `move_destination`.
    """

    spark: SparkSession | None
    options: CloudFilesOptions

    def remove(self, file: FoundFile) -> bool:
        """Delete or move a file; return whether it is no longer there.

        A file that changed after it was found is kept: its present content may not be in the table.

        Raises:
            OperationError: CLOUD_FILES_CLEANING_FAILED.
        """
        try:
            return self._local(file) if file.uri.startswith("file:") else self._hadoop(file)
        except (OSError, Py4JJavaError) as error:
            problem = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
            done = "deleted" if self.options.cleaning is Cleaning.DELETE else "moved"
            raise OperationError(
                "CLOUD_FILES_CLEANING_FAILED", file=decoded(file.uri), done=done, problem=one_line(problem)
            ) from error

    def _local(self, file: FoundFile) -> bool:
        path = decoded(file.uri).removeprefix("file:")
        try:
            status = os.stat(path)  # noqa: PTH116 - strings throughout: there may be many
        except FileNotFoundError:
            return True
        if (status.st_size, status.st_mtime_ns // 1_000_000) != (file.size, file.modified_ms):
            return False
        if self.options.cleaning is Cleaning.DELETE:
            os.unlink(path)  # noqa: PTH108 - as above
            return True
        target = self._target(path, local_path(self.options.move_destination or "") or "")
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        os.rename(path, _free(target, file, os.path.lexists))  # noqa: PTH104 - as above
        return True

    def _hadoop(self, file: FoundFile) -> bool:
        assert self.spark is not None, file.uri
        system, path = located_uri(self.spark, file.uri)
        if not system.exists(path):
            return True
        status = system.getFileStatus(path)
        if (status.getLen(), status.getModificationTime()) != (file.size, file.modified_ms):
            return False
        if self.options.cleaning is Cleaning.DELETE:
            return bool(system.delete(path, False))  # noqa: FBT003 - a Java call: `recursive`
        target = self._target(decoded(file.uri), self.options.move_destination or "")
        system.mkdirs(hadoop_path(target).getParent())
        place = hadoop_path(_free(target, file, lambda name: system.exists(hadoop_path(name))))
        if not system.rename(path, place):
            raise OSError(f"{place.toString()} is not on the same file system")  # noqa: TRY003, EM102 - becomes the problem
        return True

    def _target(self, path: str, destination: str) -> str:
        """Return the target path, which keeps the file's path relative to the source's folder."""
        base = _without_authority(folder_before_glob(self.options.path)).rstrip("/")
        found = _without_authority(path)
        below = found.removeprefix(f"{base}/") if found.startswith(f"{base}/") else found.rpartition("/")[2]
        return f"{destination.rstrip('/')}/{below}"


def _free(target: str, file: FoundFile, exists: Callable[[str], bool]) -> str:
    """Return the target, or a free name beside it: existing files are not overwritten."""
    names = chain((target, f"{target}.{file.modified_ms}"), (f"{target}.{file.modified_ms}.{n}" for n in count(2)))
    return next(name for name in names if not exists(name))


def _without_authority(path: str) -> str:
    """Return the path of a URI without its authority, which a listing may include and the option may not."""
    return _AUTHORITY.sub("", path, count=1)
