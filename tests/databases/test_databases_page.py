"""The page on databases is correct: its module runs, and its table of types is that of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework import Pipeline
from framework.run.update.results import UpdateState
from framework.sources.databases.postgres.values.types import MAPPINGS
from tests.support.copied_tables import copy_rows
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/databases.md").read_text("utf-8")


def test_the_modules_of_the_page_copy_their_tables(
    interpreting: SparkSession, folder: Path, run: Callable[..., list[tuple[object, ...]]]
) -> None:
    """The call and the module of the two sources end in the rows of the source, in one pipeline."""
    run("CREATE TABLE customers (id INT PRIMARY KEY, name TEXT, city TEXT, balance NUMERIC(10,2))")
    run("INSERT INTO customers SELECT i, 'name ' || i, NULL, i * 1.01 FROM generate_series(1, 2000) i")
    run("CREATE SCHEMA sales; CREATE TABLE sales.prices (id INT PRIMARY KEY, price INT); CREATE TABLE tmp_a (a INT)")
    run("INSERT INTO sales.prices VALUES (1, 10)")
    call, *module = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    here = f'.option("connection", "bank").option("connectionsFolder", {str(folder)!r})'
    (folder / "call.py").write_text(call, "utf-8")
    (folder / "module.py").write_text("\n\n".join(module).replace('.option("connection", "bank")', here), "utf-8")
    libraries = [{"file": {"path": name}} for name in ("call.py", "module.py")]
    (folder / "pipeline.yml").write_text(json.dumps({"name": "page", "storage": "s", "libraries": libraries}), "utf-8")
    pipeline = Pipeline.from_spec(folder / "pipeline.yml", spark=interpreting)
    assert pipeline.run().state is UpdateState.COMPLETED
    run("UPDATE customers SET city = 'Oaxaca' WHERE id % 2 = 0; DELETE FROM customers WHERE id > 1990")
    run("UPDATE customers SET id = id + 10000 WHERE id % 11 = 0")
    run("INSERT INTO customers VALUES (5000, 'new', 'Tijuana', 0.1); UPDATE sales.prices SET price = 11")
    assert pipeline.run().state is UpdateState.COMPLETED
    rows = run("SELECT id, name, city, balance FROM customers ORDER BY id")
    for schema in ("default", "shop"):
        assert sorted(map(tuple, copy_rows(pipeline, "customers", schema))) == rows
    cities = sorted(map(tuple, copy_rows(pipeline, "cities", "default")), key=repr)
    assert cities == sorted(run("SELECT city, count(*) FROM customers GROUP BY city"), key=repr)
    history = [(row.id, row.price, row["__END_AT"] is None) for row in copy_rows(pipeline, "price_history", "default")]
    assert sorted(history) == [(1, 10, False), (1, 11, True)]


def test_the_page_has_every_type() -> None:
    """The table of types has the lines of the code, in their order."""
    lines = [f"| {', '.join(each.postgres)} | {each.spark} | {each.note} |" for each in MAPPINGS]
    assert "\n".join(lines) in PAGE
