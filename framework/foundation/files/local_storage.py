"""Storage in a local folder, in pure Python, without Spark or Java."""

from __future__ import annotations

import os
import pathlib
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import FileStatus
from framework.foundation.resource_faults import file_fault


class LocalStorage:
    """The storage port for a local folder; see `Storage` for the contract of each method.

    Args:
        root: a path or a `file:` URI; a relative path is resolved against the current folder at construction.
    """

    can_append = True

    def __init__(self, root: str) -> None:
        self.root = str(pathlib.Path(_without_scheme(root)).absolute())

    def path(self, *parts: str) -> str:
        """Return the absolute path of `parts` below the root."""
        return str(pathlib.Path(self.root, *parts))

    def check_writable(self) -> None:
        """Create the root if it is missing, and check that a file can be written and deleted."""
        probe = self.path(f".sluice-probe-{os.getpid()}")
        with _writing(self.root):
            _make_folder(pathlib.Path(self.root))
            pathlib.Path(probe).write_text("probe", encoding="utf-8")
            pathlib.Path(probe).unlink()

    def read_text(self, path: str) -> str | None:
        """Return the whole file as UTF-8; None if it is absent, or a folder."""
        with _reading(path):
            try:
                return self._locate(path).read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def read_after(self, path: str, position: int) -> bytes:
        """Return the bytes of the file after the first `position` bytes."""
        with _reading(path):
            try:
                with self._locate(path).open("rb") as file:
                    file.seek(position)
                    return file.read()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return b""

    def write_text(self, path: str, text: str) -> None:
        """Replace the file atomically: rename a synced temporary file to its name."""
        target = self._locate(path)
        with _writing(path), _temporary(target, text) as temporary:
            failpoint("storage.before_replace")
            temporary.replace(target)
            _sync_folder(target.parent)

    def create_text(self, path: str, text: str) -> bool:
        """Write the file if it does not exist: creating a hard link to an existing name fails atomically."""
        target = self._locate(path)
        with _writing(path), _temporary(target, text) as temporary:
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            _sync_folder(target.parent)
            return True

    def append_text(self, path: str, text: str) -> None:
        """Append whole lines to the file, and sync them."""
        if not text.endswith("\n"):
            msg = "append_text takes whole lines"
            raise ValueError(msg)
        target = self._locate(path)
        with _writing(path):
            new = not target.exists()
            if new:
                _make_folder(target.parent)
            with target.open("ab") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            if new:
                _sync_folder(target.parent)

    def list_names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted, without names that begin with a dot; [] if it is absent."""
        with _reading(path):
            try:
                names = [entry.name for entry in self._locate(path).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(name for name in names if not name.startswith("."))

    def list_files(self, path: str) -> list[FileStatus]:
        """Return the files in a folder with size and modification time, sorted by name."""
        folder = self._locate(path)
        found = []
        for name in self.list_names(path):
            with _reading(path):
                try:
                    status = (folder / name).stat()
                except FileNotFoundError:
                    continue  # deleted after the listing
                if not (folder / name).is_dir():
                    found.append(FileStatus(name=name, size=status.st_size, modified_at=status.st_mtime))
        return found

    def folder_token(self, path: str) -> str:
        """Return the folder's modification time, which costs one system call."""
        # Called four times a second for each idle flow; a Path object costs ten times as much as the system call.
        try:
            return str(os.stat(os.path.join(self.root, _without_scheme(path))).st_mtime_ns)  # noqa: PTH116, PTH118 - see above
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise file_fault(error, path, "STORAGE_NOT_READABLE") from error

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        with _reading(path):
            return self._locate(path).exists()

    def delete_tree(self, path: str) -> None:
        """Delete a file, or a folder with its content."""
        target = self._locate(path)
        with _writing(path):
            try:
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                else:
                    target.unlink()
            except FileNotFoundError:
                return
            _sync_folder(target.parent)

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file and sync the copy."""
        destination = self._locate(target)
        with _writing(target):
            _make_folder(destination.parent)
            with self._locate(source).open("rb") as read, destination.open("wb") as written:
                shutil.copyfileobj(read, written)
                written.flush()
                os.fsync(written.fileno())
            _sync_folder(destination.parent)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a path that does not exist."""
        destination = self._locate(target)
        with _writing(target):
            if destination.exists():
                raise FileExistsError(str(destination))
            _make_folder(destination.parent)
            self._locate(source).rename(destination)
            _sync_folder(destination.parent)

    def _locate(self, path: str) -> pathlib.Path:
        return pathlib.Path(self.root, _without_scheme(path))


def _without_scheme(path: str) -> str:
    """Return the plain path of a `file:` URI; percent escapes are not decoded, as in Hadoop."""
    if path.lower().startswith("file:"):
        return "/" + path[len("file:") :].lstrip("/")
    return path


@contextmanager
def _temporary(target: pathlib.Path, text: str) -> Iterator[pathlib.Path]:
    """Yield a synced temporary file in the target's folder, with a name unique to this thread; delete it afterwards."""
    _make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _make_folder(folder: pathlib.Path) -> None:
    """Create a folder and its missing parents, and sync the parent of each."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        _sync_folder(parent.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    """Make the names in a folder durable, because the fsync of a file does not cover its name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_fault(error, path, "STORAGE_NOT_WRITABLE") from error


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_fault(error, path, "STORAGE_NOT_READABLE") from error
