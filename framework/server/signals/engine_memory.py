"""The memory of an engine: its Python process and its JVM."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from framework.foundation.processes import start_of_process
from framework.run.update.control.lock_holder import LockHolder

_PROCESSES = Path("/proc")


def engine_memory(holder: LockHolder | None) -> int | None:
    """Return the resident memory of the processes that hold a lock, in bytes; None on another machine, or without any.

    Args:
        holder: the holder of the lock.
    """
    if holder is None or holder.host != socket.gethostname():
        return None
    sizes = [_resident(holder.pid)]
    if holder.jvm and start_of_process(holder.jvm) == holder.jvm_started:
        sizes.append(_resident(holder.jvm))
    return sum(each for each in sizes if each is not None) if sizes[0] is not None else None


def _resident(pid: int) -> int | None:
    try:
        fields = (_PROCESSES / str(pid) / "statm").read_text("utf-8").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
