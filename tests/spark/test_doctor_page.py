"""The page docs/doctor.md is correct: its pipeline breaks, and its commands print what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from framework import Pipeline
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.recovery.doctor.diagnoses import WITHOUT_FAULT, every_diagnosis
from tests.support.conditions import OF_TESTS
from tests.support.plain_tables import append_rows, table_rows
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/doctor.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


def shown(text: str, folder: Path) -> str:
    """A text as on the page: without the test's folder, times and numbers of updates."""
    text = text.replace(str(folder), "").replace("file:", "")
    text = re.sub(r"id#\d+", "id#1", re.sub(r"\d+ bytes", "913 bytes", text))
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-11-23 09:30:00", text)
    return re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "7b1c", text)


class Shop:
    """The page's pipeline over data in a folder of the test, and its command line."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        code = blocks("python")[0].replace('"data/', f'"{folder}/data/')
        (folder / "shop.py").write_text(code, "utf-8")
        (folder / "pipeline.yml").write_text("name: shop\n", "utf-8")
        self.pipeline = Pipeline(
            name="shop", modules=[folder / "shop.py"], storage=str(folder / "storage"), spark=spark, development=True
        )

    def order(self, *ids: int) -> None:
        """Append orders to the source in one commit."""
        append_rows(self._spark, f"{self._folder}/data/orders", [(number,) for number in ids], "id INT")

    def statement(self, text: str) -> None:
        """Run the page's SQL."""
        self._spark.sql(text.replace("data/", f"{self._folder}/data/"))

    def call(self, line: str) -> Result:
        """Run a command line."""

        def open_pipeline(spec: Path, **options: object) -> Pipeline:
            del spec, options
            return self.pipeline

        surroundings = Surroundings(open_pipeline=open_pipeline)
        return CliRunner().invoke(cli, shlex.split(line)[1:], obj=surroundings, prog_name="sluice")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a message with a long one would be truncated at another place than on the page."""
    with TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def shop(interpreting: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The page's pipeline."""
    monkeypatch.chdir(folder)
    return Shop(interpreting, folder)


def test_the_story_of_the_page_is_true(shop: Shop, folder: Path) -> None:
    """Each command prints its block, and the rows are those that the page announces."""
    shop.order(1, 2)
    assert shop.call("sluice run").exit_code == 0
    shop.order(3, 4)
    shop.statement(blocks("sql")[0])
    failed = shop.call("sluice run")
    hint, *texts = blocks("text")
    assert (failed.exit_code, failed.stderr.splitlines()[-1]) == (1, hint.strip())
    results = [shop.call(line.strip()) for line in blocks("shell")]
    assert [shown(result.stdout, folder) for result in results] == texts
    assert [result.exit_code for result in results] == [1, 0, 0, 0]
    orders = table_rows(shop.pipeline.spark, f"{folder}/storage/tables/main/default/orders")
    assert sorted(row.id for row in orders) == [1, 2]


def test_the_table_of_the_page_has_every_diagnosis() -> None:
    """A diagnosis that is added or renamed is on the page."""
    rows = re.findall(r"^\| ([A-Z_, ]+) \|", PAGE, re.MULTILINE)
    listed = {name for row in rows for name in row.split(", ")}
    assert listed == {each.name for each in (*every_diagnosis(), *WITHOUT_FAULT)} - OF_TESTS
