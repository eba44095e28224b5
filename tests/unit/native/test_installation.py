"""What the wheel brings by itself, and what it does where Spark was not installed with it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
SPARK = {"pyspark", "delta-spark", "pandas", "pyarrow"}

# None in sys.modules is Python's own way to say that a module can't be imported.
WITHOUT_SPARK = """
import sys
for name in ("pyspark", "delta", "py4j", "pandas", "pyarrow"):
    sys.modules[name] = None
from framework.cli.main import main
main()
"""


def sluice(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that has no Spark."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *arguments],
        check=False, capture_output=True, text=True, cwd=folder, env=environment,
    )  # fmt: skip


def test_the_wheel_leaves_spark_to_databricks() -> None:
    """Spark comes with the extra `spark`, and with those for demo and development: never with the wheel alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {entry.partition("==")[0].partition(">=")[0] for entry in project["dependencies"]}
    extras = project["optional-dependencies"]
    assert names & SPARK == set()
    assert SPARK <= {entry.partition("==")[0].partition(">=")[0] for entry in extras["spark"]}
    assert ("sluice[spark]" in extras["demo"], "sluice[demo]" in extras["dev"]) == (True, True)


def test_what_needs_spark_says_how_to_install_it(tmp_path: Path) -> None:
    """A project is begun and looked at for Databricks without Spark; to validate it takes the extra."""
    assert sluice(tmp_path, "init", "shop").returncode == 0
    done = sluice(tmp_path / "shop", "validate", "--databricks")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "[SPARK_NOT_INSTALLED] This needs Spark, and the package pyspark is not installed.\n"
        "  -> Install it: pip install 'sluice[spark]'.\n"
    )
