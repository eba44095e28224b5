"""The memory of the Python processes that a session starts: readers of chunks, and of the log."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Self

_POLL_SECONDS = 0.05


class PeakMemory:
    """The largest peak of the Python processes below this one, apart from itself, during the block.

    Attributes:
        megabytes: the peak of the largest one; resident memory that it shares with its parent is counted.
        processes: how many there were.
    """

    def __init__(self) -> None:
        self.megabytes = 0.0
        self._peaks: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Start to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, with the figures."""
        self._done.set()
        self._thread.join()
        self.megabytes = max(self._peaks.values(), default=0.0)

    @property
    def processes(self) -> int:
        """How many processes were seen."""
        return len(self._peaks)

    def _watch(self) -> None:
        while not self._done.wait(_POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        status = {int(path.name): _status(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
        for pid, fields in status.items():
            if fields.get("Name", "").startswith("python") and pid != os.getpid() and _is_below(pid, status):
                peak = int(fields.get("VmHWM", "0 kB").split()[0]) / 1024
                self._peaks[pid] = max(peak, self._peaks.get(pid, 0.0))


def _status(process: Path) -> dict[str, str]:
    try:
        lines = (process / "status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _is_below(pid: int, status: dict[int, dict[str, str]]) -> bool:
    while pid > 1:
        pid = int(status.get(pid, {}).get("PPid", "0"))
        if pid == os.getpid():
            return True
    return False
