"""(t) Every day's commands on the flights pipeline, in a session of `sluice session start`, and each beside a cold one.

All are complete processes. The update has no new data.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

from bench.measure import Measure, run_process, scratch_folder, seconds_of, sluice
from framework.demo.feeder import write_feed

GOAL = 2.5
_FLIGHTS = Path(__file__).parent.parent / "pipelines" / "flights"
_TIMEOUT_SECONDS = 400
_MASTER = ("--master", "local[2]")
_COMMANDS = {
    "validate": ("validate",),
    "plan": ("plan",),
    "show": ("show", "delay_by_carrier_and_day"),
    "sql": ("sql", "SELECT count(*) FROM delay_by_carrier_and_day"),
    "run, without new data": ("run",),
}


def measure(pairs: int) -> list[Measure]:
    """The seconds of each command in the session; its detail has those without one."""
    warm: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    cold: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    with scratch_folder() as folder:
        shutil.copytree(_FLIGHTS, folder, dirs_exist_ok=True)
        write_feed(folder / "data", 1)
        _seconds(folder, "run", *_MASTER, "--cold")
        _seconds(folder, "session", "start", *_MASTER)
        try:
            for pair in range(pairs + 1):
                for name, command in _COMMANDS.items():
                    times = _seconds(folder, *command, *_MASTER), _seconds(folder, *command, *_MASTER, "--cold")
                    if pair > 0:  # the first one loads the classes of the session
                        warm[name].append(times[0])
                        cold[name].append(times[1])
        finally:
            _seconds(folder, "session", "stop")
    return [
        Measure(
            benchmark="t", what=f"`sluice {name}` of flights in a session", unit="s", goal=GOAL, value=median(times),
            detail=f"cold {seconds_of(cold[name])}, {pairs} pairs",
        )
        for name, times in warm.items()
    ]  # fmt: skip


def _seconds(folder: Path, *arguments: str) -> float:
    """The wall time of a command; its output says if it did not use the session."""
    seconds = run_process(sluice(*arguments), folder=folder, timeout_seconds=_TIMEOUT_SECONDS).seconds
    log = (folder / "bench.log").read_text("utf-8", errors="replace")
    assert "started Spark itself" not in log, log
    return seconds
