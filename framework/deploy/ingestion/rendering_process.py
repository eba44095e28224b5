"""Renders templates in a process of its own, whose memory and processor time are bounded.

Jinja's sandbox bounds what a template can reach, not what it can use up: a few lines of loops, macros or repeated texts
grow without end. Jinja's documentation leaves that to the limits of a process.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from framework.deploy.ingestion.rendering import OutOfTime, Templates
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

# For systems that do not bound processor time: nothing that ends by itself takes that long.
_WALL_SECONDS = 120.0
# The folder that this package is imported from.
_PACKAGES = Path(__file__).resolve().parents[3]
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from framework.deploy.ingestion.rendering_process import serve; serve()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What rendering all specs of a bundle may use: processor time, and memory where the system can bound it."""

    seconds: float = 10.0
    mebibytes: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderCall:
    """One template to render: its path in the folder, the values it sees, the place that names it."""

    template: str
    values: Mapping[str, Any]
    place: SourceLocation


def render_here(root: Path, folder: Path, calls: Sequence[RenderCall]) -> tuple[str, ...]:
    """Render templates in this process, without bounds on time and memory.

    Raises:
        UserError: BUNDLE_TEMPLATE_MISSING, BUNDLE_TEMPLATE_INVALID.
    """
    templates = Templates(folder, root=root)
    return tuple(templates.render(call.template, call.values, place=call.place) for call in calls)


def render_apart(
    root: Path, folder: Path, calls: Sequence[RenderCall], *, limits: Limits | None = None
) -> tuple[str, ...]:
    """Render templates in a process of its own; `folder` holds them, and places are named from `root` on.

    Raises:
        UserError: BUNDLE_TEMPLATE_MISSING, BUNDLE_TEMPLATE_INVALID; the latter also if a limit is reached.
    """
    limits = limits or Limits()
    request = {"root": str(root), "folder": str(folder), "limits": asdict(limits), "calls": [asdict(c) for c in calls]}
    answers = list(_answers(json.dumps(request)))
    for answer in answers:
        if "error" in answer:
            error = answer["error"]
            raise UserError(error["condition"], location=SourceLocation(**error["location"]), **error["fields"])
    if len(answers) < len(calls):
        call = calls[len(answers)]
        cause = f"it needs more than {limits.seconds:g} seconds of processor time, or {limits.mebibytes} MiB of memory"
        raise UserError("BUNDLE_TEMPLATE_INVALID", location=call.place, path=call.template, cause=cause)
    return tuple(answer["text"] for answer in answers)


def _answers(request: str) -> Iterator[dict[str, Any]]:
    """What the process answers, call after call; fewer than there are calls if it died."""
    process = subprocess.Popen(  # noqa: S603 - this Python, our own module
        [sys.executable, "-P", "-c", _START, str(_PACKAGES)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
    )  # fmt: skip
    try:
        told, _ = process.communicate(request, timeout=_WALL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        told, _ = process.communicate()
    for line in told.splitlines():
        with suppress(json.JSONDecodeError):  # the last line of a process that was killed
            yield json.loads(line)


def serve() -> None:
    """Answer one request from standard input on standard output: a line of JSON for each call, the last an error."""
    request = json.load(sys.stdin)
    limits = Limits(**request["limits"])
    templates = Templates(Path(request["folder"]), root=Path(request["root"]))
    _bound(limits)
    for call in request["calls"]:
        place = SourceLocation(**call["place"])
        try:
            text = templates.render(call["template"], call["values"], place=place)
        except UserError as error:
            _answer(sys.stdout, {"error": _plain(error)})
            return
        _answer(sys.stdout, {"text": text})


def _answer(stream: IO[str], answer: Mapping[str, Any]) -> None:
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


def _plain(error: UserError) -> dict[str, Any]:
    assert error.location is not None, "each fault of a template has a place"
    fields = {name: str(value) for name, value in error.fields.items()}
    return {"condition": error.condition, "fields": fields, "location": asdict(error.location)}


def _bound(limits: Limits) -> None:
    """Bound this process: an exception at the limit where Python gets to raise one, else its end."""
    try:
        import resource
    except ImportError:  # Windows bounds neither; the parent's wait does
        return

    def stop(*_: object) -> None:
        raise OutOfTime(limits.seconds)

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limits.seconds)
    last = math.ceil(limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (last, last))
    with suppress(ValueError, OSError):  # macOS has no bound on address space
        resource.setrlimit(resource.RLIMIT_AS, (limits.mebibytes << 20, limits.mebibytes << 20))
