"""(z) Two hundred commands in one session: its memory, how often its JVM is replaced, and the time of a command."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import Measure, run_process, scratch_folder, sluice
from framework.demo.feeder import write_feed

_FLIGHTS = Path(__file__).parent.parent / "pipelines" / "flights"
_MASTER = ("--master", "local[2]")
_COMMANDS = (
    ("show", "delay_by_carrier_and_day"),
    ("plan",),
    ("sql", "SELECT count(*) FROM delay_by_carrier_and_day"),
    ("validate",),
    ("run",),
)
_COUNT = 200
_SETTLED = 40
"""Commands until the caches of Spark and of the JIT compiler are full."""
_TIMEOUT_SECONDS = 400


def measure(pairs: int) -> list[Measure]:
    """The growth of a session's memory and times over its commands.

    Args:
        pairs: how many times 200 commands.
    """
    with scratch_folder() as folder:
        shutil.copytree(_FLIGHTS, folder, dirs_exist_ok=True)
        write_feed(folder / "data", 1)
        _call(folder, "run", *_MASTER, "--cold")
        _call(folder, "session", "start", *_MASTER)
        try:
            seconds, memory, jvms = [], [], set()
            for command in islice(cycle(_COMMANDS), _COUNT * pairs):
                begun = time.monotonic()
                _call(folder, *command, *_MASTER)
                seconds.append(time.monotonic() - begun)
                status = _status(folder)
                memory.append(_resident_megabytes(status["jvm"]) + _resident_megabytes(status["pid"]))
                jvms.add(status["jvm"])
        finally:
            _call(folder, "session", "stop")
    early, late = median(seconds[_SETTLED : 2 * _SETTLED]), median(seconds[-_SETTLED:])
    return [
        Measure(
            benchmark="z", what=f"memory of a session after {len(seconds)} commands / after {_SETTLED}", unit="x",
            goal=1.2, value=memory[-1] / memory[_SETTLED],
            detail=f"{memory[_SETTLED]:.0f} MB, {memory[-1]:.0f} MB; its JVM was replaced {len(jvms) - 1} times",
        ),
        Measure(
            benchmark="z", what=f"the last {_SETTLED} commands of a session / {_SETTLED} at the beginning", unit="x",
            goal=1.2, value=late / early, detail=f"median {early:.2f} s and {late:.2f} s",
        ),
    ]  # fmt: skip


def _call(folder: Path, *arguments: str) -> None:
    run_process(sluice(*arguments), folder=folder, timeout_seconds=_TIMEOUT_SECONDS)
    log = (folder / "bench.log").read_text("utf-8", errors="replace")
    assert "started Spark itself" not in log, log


def _status(folder: Path) -> dict[str, Any]:
    command = sluice("session", "status", "-o", "json")
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_TIMEOUT_SECONDS).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def _resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
