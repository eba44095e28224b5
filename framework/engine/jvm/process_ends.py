"""How Spark's processes ended, as far as the system reports it: exit codes, and out-of-memory kills."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext

_COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
)
"""Linux files with the number of kills: of the container (cgroups v1 and v2), and of the machine."""

_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_BY_ITSELF = 3  # Java's own exit code if it has no memory left
_KILLED = {-signal.SIGKILL, 128 + signal.SIGKILL}
_SECONDS = 1.0
_UNKNOWN = "it was killed, or had no memory left"


def memory_kills(counters: Sequence[Path] = _COUNTERS) -> int | None:
    """Return how many processes the system has killed for lack of memory since its start; None if unknown."""
    counts = []
    for path in counters:
        with suppress(OSError):
            counts += [int(found) for found in _KILLS.findall(path.read_text("utf-8"))]
    return sum(counts) if counts else None


def kills_since(before: int | None, now: int | None) -> str:
    """Return a sentence if processes were killed for lack of memory; empty if none was, or if it is unknown."""
    if before is None or now is None or now <= before:
        return ""
    return " Meanwhile the system has killed processes for lack of memory."


def end_of_java(before: int | None) -> str:
    """Return how the JVM of this process ended, as a clause; the possible causes if that is unknown.

    Args:
        before: the number of `memory_kills` at an earlier time.
    """
    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # it is the child of another process
        return f"{_UNKNOWN}, or its `sluice session` was ended"
    try:
        return end_by_code(process.wait(timeout=_SECONDS), before, memory_kills())
    except subprocess.TimeoutExpired:
        return _UNKNOWN


def end_by_code(code: int, before: int | None, now: int | None) -> str:
    """Return how a JVM ended by its exit code, as a clause.

    Examples:
        >>> end_by_code(-9, 0, 1)
        'it was killed (SIGKILL), and the system has killed processes for lack of memory meanwhile'
        >>> end_by_code(137, 0, 0)
        'somebody killed it (SIGKILL); the system has killed no process for lack of memory'
        >>> end_by_code(-15, None, None)
        'it was ended by SIGTERM'
    """
    if code == _BY_ITSELF:
        return "it had no memory left (code 3)"
    if code in _KILLED:
        if before is None or now is None:
            return "it was killed (SIGKILL), as the system does if the machine has no memory left"
        if now > before:
            return "it was killed (SIGKILL), and the system has killed processes for lack of memory meanwhile"
        return "somebody killed it (SIGKILL); the system has killed no process for lack of memory"
    number = -code if code < 0 else code - 128
    names = {each.value: each.name for each in signal.Signals}
    return f"it was ended by {names[number]}" if number in names else f"it ended with code {code}"
