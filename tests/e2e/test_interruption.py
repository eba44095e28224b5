"""Signals during Spark's start: the command ends immediately, with the signal's exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from framework.session.jars import delta_coordinate
from tests.support.fake_java import install_java

ROOT = Path(__file__).parents[2]


# A shell starts background jobs with SIGINT ignored, and children inherit that.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("framework", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("command", "number"), [("run", signal.SIGINT), ("run", signal.SIGTERM), ("plan", signal.SIGINT)]
)
def test_a_signal_while_spark_starts_ends_the_command_with_its_code(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    """130 for Ctrl-C and 143 for SIGTERM, without a traceback and without a write."""
    started, home, cache = tmp_path / "started", tmp_path / "java", tmp_path / "cache"
    # As Spark's JVM does, it waits for ever and leaves when its standard input closes.
    install_java(home, script=f"touch {started}; exec cat > /dev/null")
    jars = cache / "sluice" / "jars" / delta_coordinate().replace(":", "_")
    jars.mkdir(parents=True)
    (jars / "delta.jar").touch()
    project = tmp_path / "project"
    project.mkdir()
    (project / "pipeline.yml").write_text("name: p\nlibraries: [{file: {path: p.py}}]\n", encoding="utf-8")
    (project / "p.py").touch()
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(home), "XDG_CACHE_HOME": str(cache),
        "SLUICE_CLASS_ARCHIVE": "use",
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, command], cwd=project, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not started.exists():
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said.strip()) == (128 + number, "Aborted.")
    assert sorted(path.name for path in project.iterdir()) == ["p.py", "pipeline.yml"]
