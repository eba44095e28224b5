"""The dependencies of Sluice, and those that its wheel for Databricks omits."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from framework.native.wheel import BROUGHT, SERVES, leave_spark_out, main

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small wheel with Sluice's own requirements, built as pip would lay it out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = "Metadata-Version: 2.4\nName: sluice-spark\nVersion: 0.1.0\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in project["dependencies"])
    metadata += "Requires-Dist: pyspark[pipelines]==4.2.0; extra == 'bench'\nProvides-Extra: bench\n\nThe readme.\n"
    path = tmp_path_factory.mktemp("dist") / "sluice_spark-0.1.0-py3-none-any.whl"
    info = "sluice_spark-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("framework_of_a_test.py", "ANSWER = 42\n")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = ("framework_of_a_test.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD")
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))
    return path


def test_spark_is_installed_with_sluice() -> None:
    """`pip install sluice-spark` is enough."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {entry.partition("==")[0].partition(">=")[0] for entry in project["dependencies"]}
    assert names >= BROUGHT | SERVES


def test_the_wheel_for_databricks_asks_for_all_but_spark(wheel: Path, tmp_path: Path) -> None:
    """Databricks' own Spark is not hidden; the wheel still installs, and a second run changes nothing."""
    assert main([str(wheel.parent)]) == 0
    assert leave_spark_out(wheel) == ()
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("sluice_spark-0.1.0.dist-info/METADATA").decode()
    required = [line.split()[1] for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert required == [
        "pyyaml>=6",
        "jinja2>=3.1",
        "databricks-sdk>=0.40",
        "pathspec>=0.12",
        "click>=8.1",
        "rich>=13",
        "cronsim>=2.6",
        "pyspark[pipelines]==4.2.0;",
    ]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*command, str(wheel)], check=True, timeout=120)
    assert (tmp_path / "framework_of_a_test.py").read_text() == "ANSWER = 42\n"
