"""The page on AUTO CDC is correct: its module runs, and creates the tables on the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.run.update.results import UpdateState
from tests.support.plain_tables import table_rows
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/auto-cdc.md").read_text("utf-8")
_TABLE = re.compile(r"<!-- (rows|replace|table): (\S+?),?(?: after those of (\S+))? -->\n\n((?:\|.*\n)+)")
_NUMBERS = {"userId", "sequence", "__START_AT", "__END_AT"}

Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table of the page: rows of a source, or those that a dataset must have."""

    what: str
    name: str
    after: str | None
    rows: tuple[Row, ...]


def shown_tables() -> Iterator[Shown]:
    """The page's tables in their order; an empty cell is a null."""
    for what, name, after, text in _TABLE.findall(PAGE):
        head, _, *lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()]
        rows = [{key: _value(key, cell) for key, cell in zip(head, line, strict=True)} for line in lines]
        yield Shown(what=what, name=name, after=after or None, rows=tuple(rows))


def _value(column: str, cell: str) -> object:
    if not cell:
        return None
    if column == "__deleted":
        return cell == "true"
    return int(cell) if column in _NUMBERS else cell


def in_order(rows: list[Row]) -> list[Row]:
    """Rows in an order of their text."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    """All code of the page as one module, over data in a folder of the test's."""
    module = tmp_path / "page.py"
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    module.write_text(code.replace('"data/', f'"{tmp_path}/data/'), "utf-8")
    return Pipeline(name="page", modules=[str(module)], storage=str(tmp_path / "storage"), spark=spark.newSession())


def test_the_tables_of_the_page_are_what_its_module_makes(pipeline: Pipeline, tmp_path: Path) -> None:
    """The sources receive the rows of the page in order, and each target then has exactly the rows of the page."""
    sources: dict[str, tuple[Row, ...]] = {}
    for shown in shown_tables():
        if shown.what == "rows":
            sources[shown.name] = (*sources.get(shown.after or "", ()), *shown.rows)
            write(tmp_path / shown.name, sources[shown.name])
    compared, is_fresh = [], True
    for shown in shown_tables():
        if shown.what == "replace":
            write(tmp_path / shown.name, shown.rows)
            is_fresh = True
        if shown.what != "table":
            continue
        if is_fresh:
            result = pipeline.run()
            assert (result.state, [flow.error for flow in result.flows if flow.error]) == (UpdateState.COMPLETED, [])
            is_fresh = False
        path = pipeline.storage.path("tables", "main", "default", shown.name)
        found = [row.asDict() for row in table_rows(pipeline.spark, path, without="__sluice")]
        assert in_order(found) == in_order(list(shown.rows)), shown.name
        compared.append(shown.name)
    assert compared == [
        "users", "emptied", "all_users_ever", "user_history", "user_names", "all_users", "latest_users", "latest_users"
    ]  # fmt: skip


def write(folder: Path, rows: tuple[Row, ...]) -> None:
    """Replace the contents of a folder with one file of JSON lines."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
