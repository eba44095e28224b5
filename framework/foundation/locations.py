"""Where in the user's source an element was declared."""

from __future__ import annotations

import pathlib
import sys
import traceback
from dataclasses import dataclass
from types import FrameType, TracebackType

_FRAMEWORK = str(pathlib.Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A file and a line, from 1, and a column where it is known; printed as `file:line:column`."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        """`file:line`, which editors and terminals turn into a link; `Cell In[3]:2` for a notebook's cell."""
        return f"{_shown_file(self.file)}:{self.line}" + ("" if self.column is None else f":{self.column}")


def is_user_file(file: str) -> bool:
    """Whether a code file is neither the framework's, nor PySpark's, nor the interpreter's own."""
    return not (
        (file.startswith(_FRAMEWORK) and "/demo/flights/" not in file)
        or file.startswith("<frozen")
        or "/pyspark/" in file
        or "/py4j/" in file
        or file.endswith("/contextlib.py")
    )


def caller_location() -> SourceLocation | None:
    """The innermost frame outside the framework and PySpark, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return SourceLocation(file=frame.f_code.co_filename, line=frame.f_lineno)
        frame = frame.f_back
    return None


def innermost_user_line(stack: TracebackType | None) -> SourceLocation | None:
    """The last frame of a traceback that is neither ours nor PySpark's, or None."""
    frames = traceback.extract_tb(stack)
    for frame in reversed(frames):
        if frame.lineno is not None and is_user_file(frame.filename):
            return SourceLocation(file=frame.filename, line=frame.lineno)
    return None


def _shown_file(file: str) -> str:
    """`Cell In[3]` for a notebook's cell, which IPython compiles under a name of its own; else the path."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    described = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return " ".join(described) if described is not None else file
