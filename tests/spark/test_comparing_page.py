"""The page docs/comparing.md is correct: its module runs, and its commands print what the page shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.foundation.errors import UserError
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.recovery.request import ComparisonOptions
from framework.run.update.results import UpdateState
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/comparing.md").read_text("utf-8")
Sluice = Callable[[str], Result]


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def pipeline(interpreting: SparkSession, tmp_path: Path) -> Pipeline:
    """The module of the page, over data in a folder of the test."""
    code = blocks("python")[0].replace('"data/', f'"{tmp_path}/data/')
    (tmp_path / "page.py").write_text(code, "utf-8")
    (tmp_path / "data/accounts").mkdir(parents=True)
    return Pipeline(
        name="page", modules=[tmp_path / "page.py"], storage=str(tmp_path / "storage"), spark=interpreting
    )  # fmt: skip


@pytest.fixture
def sluice(pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """Runs a command line of the page on the pipeline."""
    (tmp_path / "pipeline.yml").write_text("name: page\n", "utf-8")
    monkeypatch.chdir(tmp_path)

    def open_pipeline(spec: Path, **options: object) -> Pipeline:
        del spec, options
        return pipeline

    surroundings = Surroundings(open_pipeline=open_pipeline)
    return lambda line: CliRunner().invoke(cli, shlex.split(line)[1:], obj=surroundings, prog_name="sluice")


def health(found: tuple[FlowLag, ...]) -> list[Any]:
    """The state of each flow, and its unread bytes."""
    return [(each.flow.table, each.health, each.lag.bytes) for each in found]


def test_the_commands_of_the_page_print_what_it_shows(pipeline: Pipeline, sluice: Sluice, tmp_path: Path) -> None:
    """Two updates, their comparison in each form, and the lag before and after each of them."""
    first, second = blocks("json")
    shown = blocks("shell")
    assert health(pipeline.lag()) == [("accounts_flow", FlowHealth.NOT_STARTED, None)]
    for number, rows in enumerate((first, second)):
        (tmp_path / f"data/accounts/{number}.json").write_text(rows, "utf-8")
        if number:
            assert health(pipeline.lag("accounts_flow")) == [("accounts_flow", FlowHealth.BEHIND, len(rows))]
        assert pipeline.run().state is UpdateState.COMPLETED
    assert health(pipeline.lag()) == [("accounts_flow", FlowHealth.IDLE, 0)]
    result = sluice(shown[0])
    assert (result.stdout.strip(), result.exit_code) == (blocks("text")[0].strip(), 1)
    others = [sluice(line) for line in shown[1].splitlines()]
    assert [each.exit_code for each in others] == [1, 0, 1]
    assert "1 key differs, compared by id: 1 only in accounts." in others[0].stdout
    assert json.loads(others[2].stdout)["totals"] == {
        "only_first": 0, "only_second": 1, "different": 1, "duplicate": 0, "columns": {"version": 1, "balance": 1}
    }  # fmt: skip
    assert sluice(shown[2]).stdout.splitlines()[-1].split()[:4] == ["accounts_flow", "idle", "0", "0"]
    check_other_sides(pipeline, tmp_path)


def check_other_sides(pipeline: Pipeline, folder: Path) -> None:
    """A folder and a table of the catalog are compared too, and a side that does not exist is an error."""
    rows = pipeline.table("accounts")
    rows.where("id <> 3").union(rows.where("id = 1")).write.format("delta").save(str(folder / "backup"))
    found = pipeline.reconcile("accounts", f"delta.`{folder}/backup`")
    assert ([(*each.key, each.kind.name, each.second_rows) for each in found.differences], found.second.version) == (
        [(1, "DIFFERENT", 2), (3, "ONLY_FIRST", 0)], 0
    )  # fmt: skip
    assert found.totals.duplicate == 1
    rows.createOrReplaceTempView("seen_rows")
    assert pipeline.reconcile("seen_rows", "accounts").is_equal
    wrong: list[tuple[str, str, ComparisonOptions, str]] = [
        ("acounts", "accounts", {}, "RECONCILE_TABLE_NOT_FOUND"),
        ("/nowhere", "accounts", {}, "RECONCILE_TABLE_NOT_FOUND"),
        ("seen_rows@v3", "accounts", {}, "RECONCILE_VERSION_NOT_DELTA"),
        ("accounts", "accounts", {"where": "idd = 1"}, "RECONCILE_CONDITION_INVALID"),
        ("postgres:a/b", "postgres:a/c", {}, "RECONCILE_TWO_DATABASES"),
    ]
    for first, second, options, condition in wrong:
        with pytest.raises(UserError) as caught:
            pipeline.reconcile(first, second, **options)
        assert caught.value.condition == condition
    assert "Did you mean main.default.accounts?" in str(_error(pipeline, "acounts"))
    with pytest.raises(UserError, match="LAG_FLOW_NOT_FOUND"):
        pipeline.lag("account_flow")


def _error(pipeline: Pipeline, name: str) -> UserError:
    with pytest.raises(UserError) as caught:
        pipeline.reconcile(name, "accounts")
    return caught.value
