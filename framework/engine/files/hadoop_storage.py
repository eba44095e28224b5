"""Storage on any Hadoop file system, through the session's FileSystem and FileContext classes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from framework.engine.jvm.java_errors import Py4JJavaError
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import FileStatus
from framework.foundation.resource_faults import resource_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Value = TypeVar("_Value")

# Named constants for positional Java arguments.
_RECURSIVE = True
_OVERWRITE = True
_KEEP_SOURCE = False


class HadoopStorage:
    """The storage port for a Hadoop file system; see `Storage` for the contract of each method.

    A file becomes visible when a complete temporary file is renamed. FileContext replaces an existing file atomically.
    A file system without FileContext is an object store, where each write is atomic.

    Args:
        root: a URI with a scheme.
        spark: the session with the Hadoop configuration (credentials, endpoints) for the URI.
    """

    can_append = False

    def __init__(self, root: str, spark: SparkSession) -> None:
        self.root = root.rstrip("/")
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()

    def path(self, *parts: str) -> str:
        """Return the URI of `parts` below the root."""
        return "/".join([self.root, *parts])

    def check_writable(self) -> None:
        """Create the root if it is missing and check that a file can be written and deleted."""
        probe = self.path(f".sluice-probe-{os.getpid()}")
        self._write_file(probe, "probe")
        self.delete_tree(probe)

    def read_text(self, path: str) -> str | None:
        """Return the whole file as UTF-8; None if it is absent."""
        return self._read(path, lambda stream: str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")))

    def read_after(self, path: str, position: int) -> bytes:
        """Return the bytes of the file after the first `position` bytes."""

        def rest(stream: Any) -> bytes:
            try:
                stream.seek(position)
            except Py4JJavaError as error:
                if error.java_exception.getClass().getSimpleName() == "EOFException":
                    return b""
                raise
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

        return self._read(path, rest) or b""

    def write_text(self, path: str, text: str) -> None:
        """Replace the file atomically."""
        temporary = self._temporary(path)
        self._write_file(temporary, text)
        failpoint("storage.before_replace")
        with _java_errors("STORAGE_NOT_WRITABLE", path):
            context = self._context(path)
            if context is None:
                self._write_file(path, text)
                self.delete_tree(temporary)
            else:
                context.rename(self._locate(temporary), self._locate(path), self._rename_options("OVERWRITE"))

    def create_text(self, path: str, text: str) -> bool:
        """Write the file if it does not exist, by a rename that refuses an existing target."""
        if self.exists(path):
            return False
        temporary = self._temporary(path)
        self._write_file(temporary, text)
        with _java_errors("STORAGE_NOT_WRITABLE", path):
            try:
                return self._rename_if_free(temporary, path)
            finally:
                self.delete_tree(temporary)

    def append_text(self, path: str, text: str) -> None:
        """Add whole lines by rewriting the file, because object stores cannot append (`can_append`)."""
        if not text.endswith("\n"):
            msg = "append_text takes whole lines"
            raise ValueError(msg)
        self.write_text(path, (self.read_text(path) or "") + text)

    def list_names(self, path: str) -> list[str]:
        """Return names in a folder, sorted, without those that begin with a dot; [] if it is absent."""
        return sorted(status.getPath().getName() for status in self._statuses(path))

    def list_files(self, path: str) -> list[FileStatus]:
        """Return the files in a folder with size and modification time, sorted by name."""
        files = [
            FileStatus(name=s.getPath().getName(), size=s.getLen(), modified_at=s.getModificationTime() / 1000)
            for s in self._statuses(path)
            if s.isFile()
        ]
        return sorted(files, key=lambda file: file.name)

    def folder_token(self, path: str) -> str:
        """Return the number of names in the folder and the last name: one listing."""
        names = self.list_names(path)
        return f"{len(names)} {names[-1]}" if names else ""

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        target = self._locate(path)
        with _java_errors("STORAGE_NOT_READABLE", path):
            return bool(self._file_system(target).exists(target))

    def delete_tree(self, path: str) -> None:
        """Delete a file or a folder with its content."""
        target = self._locate(path)
        with _java_errors("STORAGE_NOT_WRITABLE", path):
            self._file_system(target).delete(target, _RECURSIVE)

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file; the copy replaces an existing file."""
        paths = [self._locate(source), self._locate(target)]
        ends = [part for path in paths for part in (self._file_system(path), path)]
        with _java_errors("STORAGE_NOT_WRITABLE", target):
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(*ends, _KEEP_SOURCE, _OVERWRITE, self._configuration)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a path that does not exist."""
        with _java_errors("STORAGE_NOT_WRITABLE", target):
            parent = self._locate(target).getParent()
            self._file_system(parent).mkdirs(parent)
            if self.exists(target) or not self._rename_if_free(source, target):
                raise OperationError("STORAGE_NOT_WRITABLE", path=target, problem="it already exists")

    def _locate(self, path: str) -> Any:
        absolute = path if ":/" in path or path.startswith("/") else self.path(path)
        return self._jvm.org.apache.hadoop.fs.Path(absolute)

    def _file_system(self, target: Any) -> Any:
        return target.getFileSystem(self._configuration)

    def _context(self, path: str) -> Any:
        """Return the FileContext of a path; None if its file system has none."""
        try:
            target = self._file_system(self._locate(path)).makeQualified(self._locate(path))
            return self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(target.toUri(), self._configuration)
        except Py4JJavaError as error:
            if "UnsupportedFileSystemException" in _java_class(error):
                return None
            raise

    def _rename_options(self, *names: str) -> Any:
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._gateway.new_array(rename, len(names))
        for position, name in enumerate(names):
            options[position] = getattr(rename, name)
        return options

    def _rename_if_free(self, source: str, target: str) -> bool:
        context = self._context(target)
        if context is None:
            file_system = self._file_system(self._locate(target))
            return bool(file_system.rename(self._locate(source), self._locate(target)))
        try:
            context.rename(self._locate(source), self._locate(target), self._rename_options())
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in _java_class(error):
                return False
            raise
        return True

    def _read(self, path: str, read: Callable[[Any], _Value]) -> _Value | None:
        """Return what `read` returns for the stream of a file; None if the file is absent."""
        target = self._locate(path)
        with _java_errors("STORAGE_NOT_READABLE", path):
            try:
                stream = self._file_system(target).open(target)
            except Py4JJavaError as error:
                if _is_absent(error):
                    return None
                raise
            try:
                return read(stream)
            finally:
                stream.close()

    def _temporary(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        return f"{folder}/.{name}.{os.getpid()}-{threading.get_ident()}.tmp" if folder else f".{name}.tmp"

    def _write_file(self, path: str, text: str) -> None:
        target = self._locate(path)
        with _java_errors("STORAGE_NOT_WRITABLE", path):
            stream = self._file_system(target).create(target, _OVERWRITE)
            try:
                stream.write(text.encode("utf-8"))
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()

    def _statuses(self, path: str) -> list[Any]:
        target = self._locate(path)
        with _java_errors("STORAGE_NOT_READABLE", path):
            try:
                statuses = list(self._file_system(target).listStatus(target))
            except Py4JJavaError as error:
                if _is_absent(error):
                    return []
                raise
        return [status for status in statuses if not status.getPath().getName().startswith(".")]


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


def _is_absent(error: Py4JJavaError) -> bool:
    return _java_class(error).endswith(("FileNotFoundException", "PathNotFoundException"))


@contextmanager
def _java_errors(condition: str, path: str) -> Iterator[None]:
    """Convert Java exceptions to the condition's error."""
    try:
        yield
    except Py4JJavaError as error:
        problem = str(error.java_exception.toString())
        found = resource_condition(problem)
        if found is not None:
            raise OperationError(found, place=path, problem=problem) from error
        raise OperationError(condition, path=path, problem=problem) from error
