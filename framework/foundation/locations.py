"""Locations in the user's source code."""

from __future__ import annotations

import linecache
import pathlib
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType, TracebackType

_FRAMEWORK = str(pathlib.Path(__file__).resolve().parent.parent)
_STANDARD_LIBRARY = f"{pathlib.Path(traceback.__file__).resolve().parent}/"
_INSTALLED = ("/site-packages/", "/dist-packages/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A file, a line counted from 1, and a column if known; printed as `file:line:column`."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        """Return `file:line`, which editors and terminals turn into a link; for a notebook, `Cell In[3], line 2`."""
        cell = _cell(self.file)
        if cell is not None:
            return f"{cell}, line {self.line}"
        return f"{self.file}:{self.line}" + ("" if self.column is None else f":{self.column}")

    @property
    def cell_line(self) -> str:
        """The line of code if it is in a notebook cell, which no editor opens by its name; else empty."""
        return linecache.getline(self.file, self.line).strip() if _cell(self.file) is not None else ""


def is_user_file(file: str) -> bool:
    """Whether a code file is user code: not part of Sluice, PySpark, Py4J, Delta, Click or the interpreter."""
    return not (
        (file.startswith(_FRAMEWORK) and "/demo/flights/" not in file)
        or file.startswith("<frozen")
        or "/pyspark/" in file
        or "/py4j/" in file
        or any(f"{folder}delta/" in file for folder in _INSTALLED)
        or "/click/" in file
        or (file.startswith(_STANDARD_LIBRARY) and not _is_installed(file))
        or file.endswith(("/contextlib.py", ".pyx", ".pxi"))
    )


def caller_location() -> SourceLocation | None:
    """Return the location of the innermost frame in a user file, see `is_user_file`; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return SourceLocation(file=frame.f_code.co_filename, line=frame.f_lineno)
        frame = frame.f_back
    return None


def innermost_user_line(stack: TracebackType | None) -> SourceLocation | None:
    """Return the location of the innermost user code in a traceback, see `innermost_of`; None if there is none."""
    return innermost_of((frame.filename, frame.lineno) for frame in traceback.extract_tb(stack))


def innermost_of(frames: Iterable[tuple[str, int | None]]) -> SourceLocation | None:
    """Return the location of the innermost frame in user code; frames are ordered outermost first.

    A frame of an installed package counts only if all frames are in installed packages: if a package raises, the line
    to correct is the call of the package.
    """
    lines = [SourceLocation(file=file, line=line) for file, line in frames if line is not None and is_user_file(file)]
    own = [line for line in lines if not _is_installed(line.file)]
    found = own or lines
    return found[-1] if found else None


def _is_installed(file: str) -> bool:
    return any(folder in file for folder in _INSTALLED)


def _cell(file: str) -> str | None:
    """Return `Cell In[3]` for the generated file name of a notebook cell; None for any other file."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    described = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return None if described is None else " ".join(described)
