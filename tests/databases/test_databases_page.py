"""The page on databases is correct: its module runs, and its table of types is that of the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework import Pipeline
from framework.run.update.results import UpdateState
from framework.sources.databases.postgres.types import MAPPINGS
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/databases.md").read_text("utf-8")


def test_the_module_of_the_page_copies_a_table(
    spark: SparkSession, folder: Path, run: Callable[..., list[tuple[object, ...]]]
) -> None:
    """Its snapshot and its changes end in the rows of the source."""
    run("CREATE TABLE customers (id INT PRIMARY KEY, name TEXT, city TEXT, balance NUMERIC(10,2))")
    run("INSERT INTO customers SELECT i, 'name ' || i, NULL, i * 1.01 FROM generate_series(1, 2000) i")
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    here = f'.option("connection", "bank").option("connectionsFolder", {str(folder)!r})'
    (folder / "page.py").write_text(code.replace('.option("connection", "bank")', here), "utf-8")
    pipeline = Pipeline(
        name="page", modules=[folder / "page.py"], storage=str(folder / "storage"), spark=spark.newSession()
    )
    assert pipeline.run().state is UpdateState.COMPLETED
    run("UPDATE customers SET city = 'Oaxaca' WHERE id % 2 = 0; DELETE FROM customers WHERE id > 1990")
    run("INSERT INTO customers VALUES (5000, 'new', 'Tijuana', 0.1)")
    assert pipeline.run().state is UpdateState.COMPLETED
    copied = [tuple(row) for row in pipeline.table("customers").orderBy("id").collect()]
    assert copied == run("SELECT id, name, city, balance FROM customers ORDER BY id")


def test_the_page_has_every_type() -> None:
    """The table of types has the lines of the code, in their order."""
    lines = [f"| {', '.join(each.postgres)} | {each.spark} | {each.note} |" for each in MAPPINGS]
    assert "\n".join(lines) in PAGE
