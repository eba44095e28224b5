"""Rendering of templates in a separate process with limits on memory and processor time.

Jinja's sandbox restricts access, not resource usage: a few lines of loops, macros or repeated texts grow without
bound. Jinja's documentation recommends the limits of a process for that.
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

from framework.deploy.ingestion.rendering import Templates, TimeLimitExceeded
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

# For systems without a limit on processor time: far longer than any template that terminates needs.
_WALL_SECONDS = 120.0
# The folder from which this package is imported.
_PACKAGES = Path(__file__).resolve().parents[3]
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from framework.deploy.ingestion.rendering_process import serve; serve()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for the rendering of all specs of a bundle: processor time, and memory if the system supports it."""

    seconds: float = 10.0
    mebibytes: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderCall:
    """One template to render: its path in the folder, its values, the location of its name in the spec."""

    template: str
    values: Mapping[str, Any]
    location: SourceLocation


def render_in_process(root: Path, folder: Path, calls: Sequence[RenderCall]) -> tuple[str, ...]:
    """Render templates in this process, without limits on time and memory.

    Raises:
        UserError: BUNDLE_TEMPLATE_MISSING, BUNDLE_TEMPLATE_INVALID.
    """
    templates = Templates(folder, root=root)
    return tuple(templates.render(call.template, call.values, location=call.location) for call in calls)


def render_in_subprocess(
    root: Path, folder: Path, calls: Sequence[RenderCall], *, limits: Limits | None = None
) -> tuple[str, ...]:
    """Render the templates of `folder` in a separate process; locations are relative to `root`.

    Raises:
        UserError: BUNDLE_TEMPLATE_MISSING, BUNDLE_TEMPLATE_INVALID; the latter also if a limit is reached.
    """
    limits = limits or Limits()
    request = {"root": str(root), "folder": str(folder), "limits": asdict(limits), "calls": [asdict(c) for c in calls]}
    responses = list(_responses(json.dumps(request)))
    for response in responses:
        if "error" in response:
            error = response["error"]
            raise UserError(error["condition"], location=SourceLocation(**error["location"]), **error["fields"])
    if len(responses) < len(calls):
        call = calls[len(responses)]
        cause = f"it uses more than {limits.seconds:g} seconds of CPU time or {limits.mebibytes} MiB of memory"
        raise UserError("BUNDLE_TEMPLATE_INVALID", location=call.location, path=call.template, cause=cause)
    return tuple(response["text"] for response in responses)


def _responses(request: str) -> Iterator[dict[str, Any]]:
    """Return the responses of the process in the order of the calls; fewer than calls if it was killed."""
    process = subprocess.Popen(  # noqa: S603 - this Python, our own module
        [sys.executable, "-P", "-c", _START, str(_PACKAGES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    try:
        output, _ = process.communicate(request, timeout=_WALL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    for line in output.splitlines():
        with suppress(json.JSONDecodeError):  # the last line of a process that was killed
            yield json.loads(line)


def serve() -> None:
    """Answer one request on standard input: a line of JSON on standard output for each call, until the first error."""
    request = json.load(sys.stdin)
    limits = Limits(**request["limits"])
    templates = Templates(Path(request["folder"]), root=Path(request["root"]))
    _apply_limits(limits)
    for call in request["calls"]:
        location = SourceLocation(**call["location"])
        try:
            text = templates.render(call["template"], call["values"], location=location)
        except UserError as error:
            _respond(sys.stdout, {"error": _plain(error)})
            return
        _respond(sys.stdout, {"text": text})


def _respond(stream: IO[str], response: Mapping[str, Any]) -> None:
    stream.write(json.dumps(response) + "\n")
    stream.flush()


def _plain(error: UserError) -> dict[str, Any]:
    assert error.location is not None, "each error of a template has a location"
    fields = {name: str(value) for name, value in error.fields.items()}
    return {"condition": error.condition, "fields": fields, "location": asdict(error.location)}


def _apply_limits(limits: Limits) -> None:
    """Limit this process: an exception at the limit if Python can raise it, else the end of the process."""
    try:
        import resource
    except ImportError:  # Windows supports neither limit; the parent's timeout applies
        return

    def stop(*_: object) -> None:
        raise TimeLimitExceeded(limits.seconds)

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limits.seconds)
    last = math.ceil(limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (last, last))
    with suppress(ValueError, OSError):  # macOS has no limit on address space
        resource.setrlimit(resource.RLIMIT_AS, (limits.mebibytes << 20, limits.mebibytes << 20))
