"""`dbutils.fs`: files of mapped paths, and of all file systems of the session, through Hadoop.

In a sandbox, its functions write below the folder of the sandbox, and read what was written there, or given files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from framework.declare.session.mutations import is_guarded
from framework.declare.workspace.given_reads import staged_read, written_path
from framework.declare.workspace.refusals import Part
from framework.declare.workspace.spark_paths import spelled_path
from framework.declare.workspace.surroundings import is_updating, surroundings
from framework.engine.files.hadoop_files import copy_file, hadoop_path, located
from framework.engine.jvm.java_errors import Py4JError, Py4JJavaError
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

_HEAD_BYTES = 65_536


class FileInfo(NamedTuple):
    """An entry of a listing; the path and the name of a folder end with a slash."""

    path: str
    name: str
    size: int
    modificationTime: int  # noqa: N815 - Databricks' name

    def isDir(self) -> bool:  # noqa: N802 - Databricks' name
        """Whether it is a folder."""
        return self.name.endswith("/")

    def isFile(self) -> bool:  # noqa: N802 - Databricks' name
        """Whether it is a file."""
        return not self.isDir()


class MountInfo(NamedTuple):
    """A mount: a prefix of the map that is below `/mnt`."""

    mountPoint: str  # noqa: N815 - Databricks' name
    source: str
    encryptionType: str = ""  # noqa: N815 - Databricks' name


class Files(Part):
    """The functions of `dbutils.fs`."""

    def __init__(self) -> None:
        super().__init__("fs.")

    def ls(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, or the entry of a file."""
        with _failing("ls", path):
            system, target = _located(_read(path))
            return sorted(_info(status) for status in system.listStatus(target))

    def head(self, file: str, maxBytes: int = _HEAD_BYTES) -> str:  # noqa: N803 - Databricks' name
        """Return the beginning of a file as text."""
        with _failing("head", file):
            system, target = _located(_read(file))
            stream = system.open(target)
            try:
                return bytes(stream.readNBytes(maxBytes)).decode("utf-8", "replace")
            finally:
                stream.close()

    def put(self, file: str, contents: str, overwrite: bool = False) -> bool:  # noqa: FBT001, FBT002 - Databricks' signature
        """Write a text to a file."""
        with _writing("put", file):
            system, target = _located(written_path(file))
            stream = system.create(target, overwrite)
            try:
                stream.write(contents.encode("utf-8"))
            finally:
                stream.close()
        return True

    def mkdirs(self, dir: str) -> bool:
        """Create a folder, and its parents."""
        with _writing("mkdirs", dir):
            system, target = _located(written_path(dir))
            return bool(system.mkdirs(target))

    def cp(self, from_: str, to: str, recurse: bool = False) -> bool:  # noqa: FBT001, FBT002 - Databricks' signature
        """Copy a file, or with `recurse` a folder with all its content."""
        with _writing("cp", from_):
            (source_system, source), (system, target) = _located(_read(from_)), _located(written_path(to))
            if source_system.getFileStatus(source).isDirectory():
                _check_recursion("cp", from_, recurse=recurse)
            elif system.exists(target) and system.getFileStatus(target).isDirectory():
                target = hadoop_path(target, source.getName())
            _copy(source_system, source, system, target)
        return True

    def mv(self, from_: str, to: str, recurse: bool = False) -> bool:  # noqa: FBT001, FBT002 - Databricks' signature
        """Copy a file or folder, then delete the original; after a crash between the two steps, both exist."""
        self.cp(from_, to, recurse)
        return self.rm(from_, recurse)

    def rm(self, dir: str, recurse: bool = False) -> bool:  # noqa: FBT001, FBT002 - Databricks' signature
        """Delete a file, or with `recurse` a folder; return whether it existed."""
        with _writing("rm", dir):
            system, target = _located(written_path(dir))
            return bool(system.delete(target, recurse))

    def mounts(self) -> list[MountInfo]:
        """Return the entries of the map that are below `/mnt`."""
        entries = surroundings().paths.entries
        return [MountInfo("/" + prefix.strip("/"), target) for prefix, target in entries if prefix.startswith("/mnt/")]

    def mount(self, source: str, mountPoint: str, *_: object, **options: object) -> bool:  # noqa: N803 - Databricks' name
        """Check that the map covers a folder; nothing else is needed to mount it here."""
        del source, options
        spelled_path(mountPoint)
        return True

    updateMount = mount  # noqa: N815 - Databricks' name

    def unmount(self, mountPoint: str) -> bool:  # noqa: N803 - Databricks' name
        """Do nothing; the map is defined by the local file."""
        del mountPoint
        return True

    def refreshMounts(self) -> bool:  # noqa: N802 - Databricks' name
        """Do nothing."""
        return True


def _read(path: str) -> str:
    """Return where files are read in place of a path: in a sandbox those that were written or given, as bytes.

    Raises:
        UserError: TEST_INPUT_NOT_GIVEN.
    """
    staged = staged_read(surroundings().spark, "binaryFile", path, {}, streaming=False)
    return path if staged is None else staged.path


def _located(path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path for it."""
    return located(surroundings().spark, spelled_path(path))


def _info(status: Any) -> FileInfo:
    slash = "/" if status.isDirectory() else ""
    path = status.getPath()
    size = 0 if slash else int(status.getLen())
    return FileInfo(f"{path.toString()}{slash}", f"{path.getName()}{slash}", size, int(status.getModificationTime()))


def _copy(source_system: Any, source: Any, system: Any, target: Any) -> None:
    if source_system.getFileStatus(source).isDirectory():
        system.mkdirs(target)
        for status in source_system.listStatus(source):
            name = status.getPath().getName()
            _copy(source_system, hadoop_path(source, name), system, hadoop_path(target, name))
        return
    copy_file(source_system, source, system, target)


def _check_recursion(name: str, path: str, *, recurse: bool) -> None:
    if not recurse:
        raise _failed(name, path, "it is a folder", "Pass `True` for `recurse`.")


@contextmanager
def _writing(name: str, path: str) -> Iterator[None]:
    """Allow a write while an update loads modules or runs; refuse it while a pipeline is validated or planned."""
    if is_guarded() and not is_updating():
        raise UserError("DBUTILS_WRITE_REFUSED", location=caller_location(), name=name, path=path)
    with _failing(name, path):
        yield


@contextmanager
def _failing(name: str, path: str) -> Iterator[None]:
    try:
        yield
    except Py4JError as error:
        cause = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
        raise _failed(name, path, cause, "Correct the path, or the access to it.") from error


def _failed(name: str, path: str, cause: str, advice: str) -> UserError:
    return UserError(
        "DBUTILS_FILE_FAILED", location=caller_location(), name=name, path=path, cause=cause, advice=advice
    )
