"""`sluice` as a process of its own, in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SLUICE = [sys.executable, "-m", "framework"]


def environment() -> dict[str, str]:
    """The tests' own environment, with the checkout on the path and without colours."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def sluice(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, to its end."""
    command = [*SLUICE, *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), check=False, capture_output=True, text=True)


def result_of(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the JSON on standard output, which contains nothing else."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
