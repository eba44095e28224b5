"""Where in the user's source an element was declared."""

from __future__ import annotations

import pathlib
import sys
from dataclasses import dataclass
from types import FrameType

_FRAMEWORK = str(pathlib.Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A file and a line, from 1; printed as `file:line`."""

    file: str
    line: int

    def __str__(self) -> str:
        """`file:line`, which editors and terminals turn into a link."""
        return f"{self.file}:{self.line}"


def caller_location() -> SourceLocation | None:
    """The innermost frame outside the framework and PySpark, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_FRAMEWORK, "<frozen")) and "/pyspark/" not in file and "/contextlib" not in file:
            return SourceLocation(file=file, line=frame.f_lineno)
        frame = frame.f_back
    return None
