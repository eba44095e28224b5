"""The README is correct: its module and its script run."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from framework import Pipeline
from tests.support.sources import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def block(language: str, beginning: str = "") -> str:
    """The first code block of a language that begins with a text."""
    match = re.search(rf"```{language}\n({re.escape(beginning)}.*?)```", README, re.DOTALL)
    assert match is not None
    return match.group(1)


MODULE = block("python", "from framework import pipelines as dp")
SCRIPT = block("python", "# first.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the README's spec, module and data in it.

    The module reads `data` below the folder it is run in; the shared session runs elsewhere.
    """
    module = MODULE.replace('"data/', f'"{tmp_path}/data/')
    spec = block("yaml").replace(".sluice/airport", f"{tmp_path}/.sluice/airport")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "airport.py").write_text(module, "utf-8")
    (tmp_path / "pipeline.yml").write_text(spec, "utf-8")
    subprocess.run(["bash", "-euc", block("shell", "mkdir")], cwd=tmp_path, check=True)
    return tmp_path


def test_the_readmes_pipeline_does_what_the_readme_says(spark: SparkSession, project: Path) -> None:
    """Late events do not overwrite newer data, a cancelled flight stays deleted, a row without a flight is dropped."""
    late = {"flight": 2, "at": 5, "status": "DEPARTED", "delay": 1}
    (project / "data/events/late.json").write_text(json.dumps(late), "utf-8")
    pipeline = Pipeline.from_spec(project / "pipeline.yml", spark=spark.newSession())
    result = pipeline.run()
    assert [flow.error for flow in result.flows if flow.error] == []
    rows = [tuple(row) for row in pipeline.table("flights").orderBy("flight").collect()]
    assert rows == [(1, "ARRIVED", 9), (3, "SCHEDULED", None)]
    views = sorted(tuple(row) for row in pipeline.table("punctuality").collect())
    assert views == [("ARRIVED", 9.0), ("SCHEDULED", None)]
    assert pipeline.table("events").count() == 4


def test_the_readmes_script_runs_as_it_stands(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints a plan, a result and rows in the working folder; a second run has nothing to do."""
    assert spark is not None  # the one that the script finds
    script = tmp_path / "first.py"
    script.write_text(SCRIPT, "utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    runpy.run_path(str(script), run_name="__main__")
    again = capsys.readouterr().out
    assert ("2 steps to do." in printed, "Nothing to do, 2 skipped." in again) == (True, True)
    assert "COMPLETED" in printed
    rows = "city  amount\n────  ──────\nBern      12\nOslo      27\n2 rows · 2 columns\n"
    assert (printed.endswith(rows), again.endswith(rows)) == (True, True)
    assert (tmp_path / ".sluice/shop/tables/main/default/revenue").is_dir()


def test_the_readmes_module_is_one_that_can_be_read() -> None:
    """About twenty lines of code, and a spec that is YAML."""
    code = [line for line in MODULE.splitlines() if line.strip()]
    assert len(code) <= 25
    assert yaml.safe_load(block("yaml"))["name"] == "airport"
