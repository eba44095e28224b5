"""Exceptions of the user's Python functions inside Spark, read back from the text that Spark makes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.foundation.locations import SourceLocation, innermost_of
from framework.foundation.wording import one_line

_HEAD = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in ', re.MULTILINE)
# The exception stands on the first line below the frames that is not indented; Spark adds its own words behind it.
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
    """The exception that the last traceback in a text ends with; None if there is no traceback.

    Of several (`raise … from …`) the last is the one that left the function.
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
