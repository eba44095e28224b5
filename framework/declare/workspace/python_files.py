"""Python's own files below mapped folders: `open`, `os`, and modules built on them, such as `pathlib` and `glob`.

The functions are replaced while pipeline code runs, and have an effect in its own thread only. Libraries that open
files in C, such as PyArrow, and the Python processes of tasks do not use them.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from framework.declare.session.patches import Patch, Patches
from framework.declare.workspace.surroundings import Surroundings, found_surroundings, loaded_from

_ONE_PATH = (
    "access",
    "chmod",
    "chown",
    "getxattr",
    "listdir",
    "listxattr",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "remove",
    "removexattr",
    "rmdir",
    "scandir",
    "setxattr",
    "stat",
    "statvfs",
    "truncate",
    "unlink",
    "utime",
)
_TWO_PATHS = ("link", "rename", "replace", "symlink")


@contextmanager
def python_files(surroundings: Surroundings) -> Iterator[None]:
    """Open files of this machine in the block where its code names workspace paths.

    A relative path that does not exist in the working folder is looked up in the folder of the spec, in its
    `root_path`, and in the folder of the file being loaded, which is the working folder on Databricks.
    """
    if not surroundings.paths.entries and surroundings.root is None:
        yield
        return
    with _PATCHES.installed():
        yield


def _patches() -> list[Patch]:
    owners: list[tuple[ModuleType, str, int]] = [(builtins, "open", 1), (io, "open", 1)]
    owners += [(os, name, 1) for name in _ONE_PATH if hasattr(os, name)]
    owners += [(os, name, 2) for name in _TWO_PATHS if hasattr(os, name)]
    return [Patch(owner, name, functools.partial(_replaced, name, paths)) for owner, name, paths in owners]


_PATCHES = Patches(_patches)


def _replaced(name: str, paths: int, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        around = found_surroundings()
        if around is None or not args:
            return original(*args, **kwargs)
        given = args[:paths]
        found = tuple(_path_here(around, path) for path in given)
        if found == given:
            return original(*args, **kwargs)
        try:
            result = original(*found, *args[paths:], **kwargs)
        except OSError as error:  # it shows the paths as the code has them
            error.filename = given[0]
            if paths > 1:
                error.filename2 = given[1]
            raise
        return _Entries(result, os.fspath(given[0])) if name == "scandir" else result

    return call


def _path_here(around: Surroundings, path: Any) -> Any:
    """Return the path on this machine; the same object if it is not mapped."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        return path
    if text.startswith("/"):
        found = around.paths.local_target(text)
        return path if found is None else found
    return next((base for base in _bases(around, text) if _exists(base)), path)


def _bases(around: Surroundings, path: str) -> Iterator[str]:
    root, below = around.root, around.root_path
    if root is None:
        return
    if below is not None:
        yield str(Path(root, below, path))
    if not _exists(path):
        yield str(Path(root, path))
        folder = loaded_from()
        if folder is not None:
            yield str(Path(folder, path))


def _exists(path: str) -> bool:
    try:
        _PATCHES.original(os, "stat")(path)
    except (OSError, ValueError):
        return False
    return True


class _Entry:
    """An entry of a mapped folder, with the path that the code uses."""

    def __init__(self, entry: os.DirEntry[str], folder: str) -> None:
        self._entry = entry
        self.path = os.path.join(folder, entry.name)  # noqa: PTH118 - as `scandir` joins it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return self.path


class _Entries:
    """The result of `os.scandir`, with entries of a mapped folder."""

    def __init__(self, entries: Any, folder: str) -> None:
        self._entries = entries
        self._folder = folder

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Entry:
        return _Entry(next(self._entries), self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        self._entries.close()
