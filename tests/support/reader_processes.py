"""The processes in which Spark runs the streaming sources of this process's sessions."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def kill_readers() -> bool:
    """Kill the processes that read the sources of this process's streams; return whether there was one."""
    killed = 0
    for process in _readers():
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
            killed += 1
    return killed > 0


@contextmanager
def killed_after(seconds: float) -> Iterator[Callable[[], bool]]:
    """Kill the readers of the block some time after the first of them is there; yield whether that has happened."""
    ended, killed = threading.Event(), threading.Event()

    def kill() -> None:
        while not ended.wait(0.05):
            if any(True for _ in _readers()):
                if not ended.wait(seconds) and kill_readers():
                    killed.set()
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed.is_set
    finally:
        ended.set()
        killer.join()


def _readers() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            process = int(path.parent.name)
            if b"streaming_source_runner" in path.read_bytes() and _is_own(process):
                yield process


def _is_own(process: int) -> bool:
    """Whether a reader is of this process or worker: workers share a JVM (`worker_session.py`)."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return os.getpid() in _ancestors(process)
    return f"PYTEST_XDIST_WORKER={worker}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")


def _ancestors(process: int) -> Iterator[int]:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
        yield process
