"""CPU seconds of this process and of those below it, without servers of databases."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_SERVERS = ("mariadbd", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a piece of work took.

    Args:
        seconds: of the clock.
        python: CPU seconds of Python, and of processes that have ended.
        java: CPU seconds of Java.
    """

    seconds: float
    python: float
    java: float

    @property
    def cpu(self) -> float:
        """The CPU seconds of all processes."""
        return self.python + self.java

    @classmethod
    def of(cls, work: Callable[[], object]) -> Self:
        """Do the work."""
        begun, before = time.monotonic(), cpu_seconds()
        work()
        seconds, after = time.monotonic() - begun, cpu_seconds()
        python, java = (late - early for early, late in zip(before, after, strict=True))
        return cls(seconds=seconds, python=python, java=java)


def cpu_seconds() -> tuple[float, float]:
    """The CPU seconds of Python and of Java so far; a process that has ended counts as Python, by its parent."""
    stats = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    below, added = [os.getpid()], [os.getpid()]
    while added:
        added = [pid for pid, (name, fields) in stats.items() if name not in _SERVERS and fields[1] in added]
        below += added
    own, ended = {True: 0, False: 0}, 0
    for name, fields in (stats[pid] for pid in below):
        own[name == "java"] += fields[11] + fields[12]
        ended += fields[13] + fields[14]
    return (own[False] + ended) / _TICKS, own[True] / _TICKS


def _stat(process: Path) -> tuple[str, list[int]]:
    """The name of a process, and the numbers of its `stat` from the state on, which is 0."""
    try:
        name, _, rest = (process / "stat").read_text("utf-8", "replace").partition("(")[2].rpartition(")")
    except OSError:  # it has ended
        return "", [0] * 15
    return name, [0, *map(int, rest.split()[1:])]
