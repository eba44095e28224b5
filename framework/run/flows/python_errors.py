"""Parses exceptions of the user's Python functions from the text of Spark's errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.foundation.locations import SourceLocation, innermost_of
from framework.foundation.wording import one_line

_HEAD = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in ', re.MULTILINE)
# The exception is the first line below the frames that is not indented; Spark appends its own text.
_RAISED = re.compile(
    r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*?))?\s*(?=\Z|^\s+at |^\s*SQLSTATE|\n\n)", re.MULTILINE | re.DOTALL
)
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonError:
    """One exception: `text` is its type and message, `location` the innermost line of the user's code."""

    text: str
    location: SourceLocation | None


def python_error(text: str) -> PythonError | None:
    """Return the exception at the end of the last traceback in a text; None if there is no traceback.

    Of several tracebacks (`raise … from …`), the last is of the exception that left the function.
    """
    _, head, stack = text.rpartition(_HEAD)
    frames = list(_FRAME.finditer(stack))
    raised = _RAISED.search(stack, frames[-1].end() if frames else 0)
    if not head or raised is None:
        return None
    message = _SQLSTATE.sub("", raised["message"] or "")
    kind = raised["kind"].rpartition(".")[2]
    return PythonError(
        text=one_line(f"{kind}: {message}" if message else kind),
        location=innermost_of((frame["file"], int(frame["line"])) for frame in frames),
    )
