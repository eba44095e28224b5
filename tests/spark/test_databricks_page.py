"""The page docs/databricks.md is correct: its example of a pipeline from Databricks runs as written, and its lists."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.declare.interface.table_properties import TUNING
from framework.declare.pipeline_spec import _TOLERATED
from framework.sources.cloud_files.settings.option_names import NO_EFFECT
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/databricks.md").read_text("utf-8")
BRING = PAGE.partition("## Bring a pipeline from Databricks")[2]


def blocks(language: str) -> list[str]:
    """The blocks of the section in a language."""
    return re.findall(rf"^```{language}\n(.*?)```", BRING, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the example, under the names in their first lines."""
    for text in (blocks("python")[0], blocks("sql")[0]):
        path = tmp_path / "shop" / text.partition("\n")[0].lstrip("#- ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def test_a_pipeline_from_databricks_runs_as_the_page_says(
    interpreting: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that `sluice adopt` writes is that of the page, and each command ends well."""

    def open_pipeline(spec: Path, *, local: Path | None, parameters: Mapping[str, str], **options: object) -> Pipeline:
        del options
        return Pipeline.from_spec(spec, spark=interpreting, local=local, parameters=parameters)

    def sluice(line: str) -> Result:
        surroundings = Surroundings(open_pipeline=open_pipeline)
        return CliRunner().invoke(cli, shlex.split(line)[1:], obj=surroundings, prog_name="sluice")

    assert sluice("sluice adopt").exit_code == 0
    assert (folder / "sluice.local.yml").read_text("utf-8") == blocks("yaml")[0]
    found: dict[str, Result] = {}
    for line in blocks("shell")[0].splitlines():
        if line.startswith("export "):
            monkeypatch.setenv(*line.removeprefix("export ").split("="))
        elif line.startswith("sluice "):
            found[line.split()[1]] = sluice(line)
        else:
            subprocess.run(["/bin/sh", "-c", line], check=True)
    assert {name: each.exit_code for name, each in found.items()} == {"validate": 0, "run": 0, "show": 0}
    printed = found["validate"].stdout + found["validate"].stderr
    assert re.findall(r"\[(\w+)\]", printed) == ["TABLE_PROPERTY_WITHOUT_EFFECT", "CLOUD_FILES_OPTION_WITHOUT_EFFECT"]
    assert found["show"].stdout.split()[-2:] == ["Switzerland", "10"]
    assert "a-pinch-of-it" not in "".join(each.output for each in found.values())


def test_the_lists_of_what_has_no_effect_are_those_of_the_code() -> None:
    """Each name is there once, and properties and options with their reason."""
    section = PAGE.partition("### What has no effect")[2].partition("\n## ")[0]
    rows = re.findall(
        r"^\| (key of a spec|property of a table|option `cloudFiles\.…`) \| (.+?) \| (.+?) \|$", section, re.MULTILINE
    )
    listed = [(kind, name, why) for kind, names, why in rows for name in re.findall(r"`([^`]+)`", names)]
    assert sorted(name for kind, name, _ in listed if kind.startswith("key")) == sorted(_TOLERATED)
    for kind, known in (("property", TUNING), ("option", NO_EFFECT)):
        pairs = [(name.lower(), why) for each, name, why in listed if each.startswith(kind)]
        assert sorted(pairs) == sorted(known.items())


def test_the_entries_of_the_page_are_valid_yaml() -> None:
    """All of them are keys of the file."""
    assert {*yaml.safe_load(blocks("yaml")[1])} == {"paths", "secrets", "tables", "parameters"}
