"""The page docs/recovery.md is correct: its modules run, and the plan, the error and the rows are those on the page."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.cli.commands.rewind import rewind_text
from framework.cli.output import Output
from framework.cli.updating import print_backups
from framework.operations.updating import kept_histories
from framework.plan.explainer import plan_text
from framework.plan.steps import breakages
from framework.run.update.results import UpdateState
from tests.support.plain_tables import append_rows, table_rows
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/recovery.md").read_text("utf-8")
FILES_PAGE = (ROOT / "docs/files.md").read_text("utf-8")
DROPPED = '.dropDuplicates(["id", "sequenceNum"])'
COMMANDS: dict[str, dict[str, Any]] = {
    "sluice run --reset-checkpoint main.default.customers --from modifiedAfter=2026-03-03T00:00:00": {
        "reset_checkpoints": {"main.default.customers": "modifiedAfter=2026-03-03T00:00:00"}
    },
    "sluice run --full-refresh main.default.customers": {"full_refresh": ["main.default.customers"]},
    "sluice run --full-refresh main.default.customers --keep-history": {
        "full_refresh": ["main.default.customers"], "keep_history": True,
    },
}  # fmt: skip


def module(mark: str) -> str:
    """The page's module that begins with a comment."""
    match = re.search(rf"```python\n# {mark}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match.group(1)


def cells(name: str, mark: str) -> list[list[str]]:
    """The cells of a table on the page, without its head."""
    match = re.search(rf"<!-- rows: {name}, {mark} -->\n\n\|.*\n\|.*\n((?:\|.*\n)+)", PAGE)
    assert match is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in match.group(1).splitlines()]


def rows(mark: str, name: str = "orders") -> list[tuple[int, str]]:
    """The page's rows of a table of the pipeline."""
    return [(int(number), text) for number, text in cells(name, mark)]


@pytest.fixture
def shop(interpreting: SparkSession, tmp_path: Path) -> Shop:
    """A folder with the first four orders."""
    shop = Shop(interpreting, tmp_path)
    shop.order([(1, "Bern"), (2, "Oslo")])
    shop.order([(2, "Oslo"), (3, "Rome")])
    return shop


class Shop:
    """The page's pipeline over data in a folder of the test."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def order(self, orders: list[tuple[int, str]]) -> None:
        """Append orders to the source in one commit."""
        append_rows(self._spark, str(self._folder / "data/orders"), orders, "id INT, city STRING")

    def pipeline(self, mark: str) -> Pipeline:
        """The pipeline with one of the page's modules."""
        file = self._folder / "shop.py"
        file.write_text(module(mark).replace('"data/', f'"{self._folder}/data/'), "utf-8")
        return Pipeline(name="shop", modules=[file], storage=self._folder / "storage", spark=self._spark)

    def as_on_page(self, text: str, update_id: str) -> str:
        """A text with the time and the paths of the page, and lines of one length."""
        text = re.sub("─+", "─", text).replace(f"the end of update {update_id}, ", "")
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "2026-04-09 13:55:00.000Z", text)
        return text.replace(f"{self._folder}/", "")

    def rows(self, pipeline: Pipeline) -> list[tuple[int, str]]:
        """The table's rows by number."""
        found = table_rows(self._spark, pipeline.storage.path("tables", "main", "default", "orders"))
        return sorted((row.id, row.city) for row in found)


def test_the_story_of_the_page_is_true(shop: Shop) -> None:
    """The plan and the error are those on the page, and the page's command recovers the table."""
    before = shop.pipeline("before")
    assert before.run().state is UpdateState.COMPLETED
    assert shop.rows(before) == rows("before")
    after = shop.pipeline("after")
    plan = after.plan()
    (error,) = breakages(after.graph, plan)
    located = re.sub(r"at \S*/shop\.py", "at shop.py", error.render())
    (shown,) = re.findall(r"```text\n(Plan of shop.*?)\n```", PAGE, re.DOTALL)
    assert shown == f"{plan_text(plan)}\n\n{located}"
    assert [each.condition for each in after.foretell()] == [error.condition]
    failed = after.run()
    assert [flow.error.condition for flow in failed.flows if flow.error] == [error.condition]
    shop.order([(4, "Kyiv"), (5, "Riga")])
    start = re.findall(r"^sluice run --reset-checkpoint (\S+orders) --from (\S+)$", PAGE, re.MULTILINE)
    recovered = after.run(reset_checkpoints=dict(start))
    assert recovered.state is UpdateState.COMPLETED
    assert shop.rows(after) == rows("after")
    assert after.foretell() == ()
    shop.order([(6, "Bonn")])
    bad = shop.pipeline("bad")
    assert bad.run().state is UpdateState.COMPLETED
    assert shop.rows(bad) == rows("bad")
    after = shop.pipeline("after")
    rewind = after.rewinds.plan(recovered.update_id)
    (said,) = re.findall(r"```text\n(Rewind of shop.*?)\n```", PAGE, re.DOTALL)
    printed = rewind_text(Output(stream=io.StringIO()), "shop", rewind)
    assert shop.as_on_page(printed, recovered.update_id) == re.sub("─+", "─", said)
    after.rewinds.rewind(rewind)
    assert after.run().state is UpdateState.COMPLETED
    assert shop.rows(after) == rows("rewound")


class Customers:
    """The module of docs/files.md over the files of this page."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self.landing = folder / "landing"

    def land(self, mark: str) -> None:
        """Write the files of a table on the page, with their modification times."""
        files: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, day, number, text, operation, sequence in cells("files", mark):
            event = {"id": int(number), "name": text or None, "operation": operation, "sequenceNum": int(sequence)}
            files[name, day].append(json.dumps(event))
        for (name, day), lines in files.items():
            file = self.landing / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(lines) + "\n", "utf-8")
            modified = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC).timestamp()
            os.utime(file, (modified, modified))

    def pipeline(self, storage: str, *, of: str | None = None, broken: bool) -> Pipeline:
        """The pipeline over a storage, a copy of another one if `of` is given."""
        if of is not None:
            shutil.copytree(self._folder / of, self._folder / storage)
        module = "\n\n".join(re.findall(r"```python\n(.*?)```", FILES_PAGE, re.DOTALL))
        assert DROPPED in module
        file = self._folder / f"{'after' if broken else 'before'}/customers.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(module.replace(DROPPED, "") if broken else module, "utf-8")
        return Pipeline(
            name="customers", modules=[file], storage=self._folder / storage, spark=self._spark,
            configuration={"landing": str(self.landing)}, development=True,
        )  # fmt: skip


def customers_of(pipeline: Pipeline) -> list[tuple[int, str]]:
    """The table's rows by number."""
    found = table_rows(pipeline.spark, pipeline.storage.path("tables", "main", "default", "customers"))
    return sorted((int(row.id), row.name) for row in found)


def test_each_strategy_ends_in_the_table_that_never_broke(interpreting: SparkSession, tmp_path: Path) -> None:
    """The break is foretold with the page's text; a reset and both full refreshes end in the page's rows."""
    story = Customers(interpreting, tmp_path)
    story.land("before")
    first = story.pipeline("storage", broken=False)
    assert first.run().state is UpdateState.COMPLETED
    assert customers_of(first) == rows("before", "customers")
    story.land("after")
    unbroken = story.pipeline("unbroken", of="storage", broken=False)
    assert unbroken.run().state is UpdateState.COMPLETED
    assert customers_of(unbroken) == rows("after", "customers")
    broken = story.pipeline("storage", broken=True)
    plan = broken.plan()
    (error,) = breakages(broken.graph, plan)
    located = re.sub(r"at \S*/customers\.py", "at customers.py", error.render())
    (shown,) = re.findall(r"```text\n(Plan of customers.*?)\n```", PAGE, re.DOTALL)
    assert shown == f"{plan_text(plan)}\n\n{located}"
    printed = io.StringIO()
    for number, (command, request) in enumerate(COMMANDS.items()):
        assert f"`{command}`" in PAGE
        if request.get("keep_history"):
            (story.landing / "customers/1.json").unlink()
            (story.landing / "customers/2.json").unlink()
        recovered = story.pipeline(f"strategy {number}", of="storage", broken=True)
        result = recovered.run(**request)
        assert [flow.error for flow in result.flows if flow.error] == []
        assert customers_of(recovered) == rows("after", "customers")
        assert recovered.foretell() == ()
        print_backups(Output(stream=printed, as_json=False), kept_histories(recovered, result))
    (said,) = re.findall(r"```text\n *(History.*?)\n *```", PAGE, re.DOTALL)
    assert [line.strip() for line in said.splitlines()] == printed.getvalue().strip().splitlines()
