"""How many engines fit into the memory of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_RESERVED_BYTES = 4 * 1024**3
_ENGINE_BYTES = 3 * 1024**3
"""An engine at rest has 1.2 GB; batches of a million rows take 1.5 GB of a heap of 3 GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of this machine or container; None is unknown."""

    total_bytes: int
    available_bytes: int | None


def memory() -> Memory:
    """Return the memory of this machine; the limit of a container counts if it is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _number(Path("/sys/fs/cgroup/memory.max"))
    return Memory(total_bytes=total if limit is None else min(total, limit), available_bytes=_available())


def most_engines(total_bytes: int) -> int:
    """Return how many engines may run at the same time.

    Examples:
        >>> most_engines(24 * 1024**3)
        6
    """
    return max(1, (total_bytes - _RESERVED_BYTES) // _ENGINE_BYTES)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024


def _number(path: Path) -> int | None:
    try:
        text = path.read_text("utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
