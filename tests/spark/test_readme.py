"""The README says what is so: its module runs, its commands exist, its links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from framework import Pipeline
from tests.support.sources import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def block(language: str) -> str:
    """The first code block of a language."""
    match = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert match is not None
    return match.group(1)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the README's spec and module in it.

    The module reads `data` below the folder it is run in; the shared session runs elsewhere.
    """
    module = block("python").replace('"data/', f'"{tmp_path}/data/')
    spec = block("yaml").replace(".sluice/airport", f"{tmp_path}/.sluice/airport")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "airport.py").write_text(module, "utf-8")
    (tmp_path / "pipeline.yml").write_text(spec, "utf-8")
    return tmp_path


def write_json(file: Path, rows: list[dict[str, object]]) -> None:
    """A file of JSON lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_the_readmes_pipeline_does_what_the_readme_says(spark: SparkSession, project: Path) -> None:
    """Late events change nothing newer, a cancelled flight stays gone, a row about no flight is dropped."""
    write_json(
        project / "data/schedule/all.json",
        [{"flight": flight, "status": "SCHEDULED", "delay": None} for flight in (1, 2, 3)],
    )
    write_json(
        project / "data/events/1.json",
        [
            {"flight": 1, "at": 20, "status": "ARRIVED", "delay": 9},
            {"flight": 2, "at": 15, "status": "CANCELLED"},
            {"flight": None, "at": 16, "status": "HEARTBEAT"},
        ],
    )
    write_json(
        project / "data/events/2.json",
        [
            {"flight": 1, "at": 10, "status": "DEPARTED", "delay": 4},
            {"flight": 2, "at": 5, "status": "DEPARTED", "delay": 1},
        ],
    )
    pipeline = Pipeline.from_spec(project / "pipeline.yml", spark=spark.newSession())
    result = pipeline.run()
    assert [flow.error for flow in result.flows if flow.error] == []
    rows = [tuple(row) for row in pipeline.table("flights").orderBy("flight").collect()]
    assert rows == [(1, "ARRIVED", 9), (3, "SCHEDULED", None)]
    views = sorted(tuple(row) for row in pipeline.table("punctuality").collect())
    assert views == [("ARRIVED", 9.0), ("SCHEDULED", None)]
    assert pipeline.table("events").count() == 4


def test_the_readmes_module_is_one_that_can_be_read() -> None:
    """About twenty lines of code, and a spec that is YAML."""
    code = [line for line in block("python").splitlines() if line.strip()]
    assert len(code) <= 25
    assert yaml.safe_load(block("yaml"))["name"] == "airport"


def test_the_readmes_links_lead_somewhere() -> None:
    """Every relative link and picture is a file or folder of the repository."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_readmes_commands_exist() -> None:
    """Each `sluice` command and `make` target that the README names is there."""
    commands = {path.stem for path in (ROOT / "framework/cli/commands").glob("[a-z]*.py")}
    assert set(re.findall(r"`?sluice ([a-z]+)", README)) - commands == set()
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"^    make ([a-z]+)", README, re.MULTILINE)) - targets == set()
