"""The page docs/quarantine.md is correct: its module runs, and its commands print what the page shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from framework import Pipeline
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.run.quarantine.setting import quarantine_by_default
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/quarantine.md").read_text("utf-8")
Sluice = Callable[[str], Result]


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def sluice(interpreting: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """Runs a command line of the page, each with the module as it is then."""
    (tmp_path / "data/payments").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.yml").write_text("name: page\n", "utf-8")

    def open_pipeline(spec: Path, **options: object) -> Pipeline:
        del spec, options
        return Pipeline(
            name="page", modules=[tmp_path / "page.py"], storage=str(tmp_path / "storage"), spark=interpreting
        )  # fmt: skip

    surroundings = Surroundings(open_pipeline=open_pipeline)
    return lambda line: CliRunner().invoke(cli, shlex.split(line)[1:], obj=surroundings, prog_name="sluice")


def without_times(text: str) -> str:
    """The text with one time in place of each."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-11-23 05:00:00", text).strip()


def test_the_commands_of_the_page_print_what_it_shows(sluice: Sluice, tmp_path: Path) -> None:
    """An update, the list and the rows, a fix, its dry and its real replay, and a drop."""
    code = blocks("python")[0].replace('"data/', f'"{tmp_path}/data/')
    (tmp_path / "page.py").write_text(code, "utf-8")
    (tmp_path / "data/payments/1.json").write_text(blocks("json")[0], "utf-8")
    assert sluice("sluice quarantine list").stdout == "No row is quarantined.\n"
    ran = sluice("sluice run")
    assert ran.exit_code == 0, ran.output
    shown, replays, (drop,) = (block.splitlines() for block in blocks("shell"))
    listed = sluice(shown[0])
    assert without_times(listed.stdout) == blocks("text")[0].strip()
    rows = json.loads(sluice(f"{shown[1]} -o json").stdout)
    assert sorted((row["row"]["id"], row["file"].rpartition("/")[2], row["batch"]) for row in rows) == [
        (2, "1.json", 0), (4, "1.json", 0)
    ]  # fmt: skip
    assert [row["position"]["to"] for row in rows] == [[{"logOffset": 0}]] * 2
    assert '"currency":"EUR"' in sluice(shown[1]).stdout
    found = json.loads(sluice(f"sluice sql -o json {shlex.quote(blocks('sql')[0])}").stdout)
    assert [(row["id"], row["amount"]) for row in found] == [(2, "-5.00"), (3, "7.50"), (4, "0.00")]

    (tmp_path / "page.py").write_text(code.replace("'USD')", "'USD', 'GBP', 'CHF')"), "utf-8")
    expected = blocks("text")[1]
    assert sluice(replays[0]).stdout == expected.replace("written", "would be written")
    assert sluice(replays[1]).stdout == expected
    assert json.loads(sluice(f"{replays[1]} -o json").stdout)["passed"] == 0
    assert sorted(row["id"] for row in json.loads(sluice("sluice show payments -o json").stdout)) == [1, 3]
    refused = sluice(drop.replace(" --yes", ""))
    assert "QUARANTINE_NOT_CONFIRMED" in refused.stderr
    assert sluice(drop).stdout == "2 rows dropped.\n"
    states = [each["state"] for each in json.loads(sluice("sluice quarantine list -o json").stdout)]
    assert states == ["replayed"]


def test_the_yaml_of_the_page_is_a_valid_configuration() -> None:
    """The entry of the configuration is the one that the code reads."""
    key, value = re.findall(r"\{(\S+): \"(\w+)\"\}", blocks("yaml")[0])[0]
    assert quarantine_by_default({key: value})
