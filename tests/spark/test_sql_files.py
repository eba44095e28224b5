"""SQL files run as Python modules do: docs/sql.md is correct, and errors name the lines of the file."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.foundation.errors import GraphErrors
from framework.operations.new_project import create_project
from framework.plan.steps import SkipStep
from framework.run.update.results import UpdateState
from tests.support.plain_tables import append_rows, table_rows
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/sql.md").read_text("utf-8")


def rows(made: Pipeline, spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    """The stored rows of a table, sorted."""
    path = made.storage.path("tables", *table.split("."))
    return sorted(map(tuple, table_rows(spark, path, without="__sluice")), key=repr)


def test_the_page_s_project_has_the_page_s_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted order is gone, a row that fails its expectation was never there, and the old order was applied once."""
    (spec,), (module,), (data,) = (
        re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) for language in ("yaml", "sql", "shell")
    )
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations/shop.sql").write_text(module, encoding="utf-8")
    (tmp_path / "pipeline.yml").write_text(spec.replace("data/", f"{tmp_path}/data/"), encoding="utf-8")
    subprocess.run(["bash", "-euc", data], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    made = Pipeline.from_spec("pipeline.yml", storage=tmp_path / "storage", spark=spark)
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "main.default.current_orders") == [(1, "ada", 30), (100, "ada", 5)]
    assert rows(made, spark, "main.default.revenue") == [("ada", 35)]
    assert [row.id for row in made.table("orders").orderBy("at", "id").collect()] == [1, 2, 1, 2]


EVENTS = """CREATE OR REFRESH STREAMING TABLE events (CONSTRAINT small EXPECT (id < 9) ON VIOLATION DROP ROW)
AS SELECT id, v FROM STREAM(source);
"""
VIEWS = """
USE CATALOG other; USE SCHEMA gold;
CREATE MATERIALIZED VIEW totals (n COMMENT 'number of rows', largest)
AS SELECT count(*), max(id) FROM small;
CREATE MATERIALIZED VIEW copied AS SELECT t.n FROM totals t, other.gold.totals WHERE t.n = totals.n;
CREATE MATERIALIZED VIEW scaled AS SELECT id * ${factor} AS id FROM main.default.events;
USE main.default;
CREATE TEMPORARY VIEW small AS SELECT * FROM events WHERE id < ${least};
CREATE STREAMING TABLE compared
FLOW AUTO CDC FROM SNAPSHOT (SELECT id % 3 AS id, max(v) AS v FROM events GROUP BY 1) KEYS (id);
"""
PYTHON = """from framework import pipelines as dp


@dp.table
@dp.expect_or_drop("small", "(id < 9)")
def events():
    return spark.sql("SELECT id, v FROM STREAM source")
"""
SOURCE = """from framework import pipelines as dp


@dp.temporary_view
def source():
    return spark.readStream.format("delta").load("{source}")
"""


class _World:
    """A folder with the files of one pipeline, which reads a Delta table."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.source = spark, folder, str(folder / "delta")

    def append(self, ids: range) -> None:
        """Append rows to the source."""
        append_rows(self.spark, self.source, [(number, str(number)) for number in ids], "id BIGINT, v STRING")

    def pipeline(self, files: Mapping[str, str], factor: int = 10) -> Pipeline:
        """The pipeline of these files."""
        files = {**files, "source.py": SOURCE}
        paths = [self.folder / name for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.write_text(text.replace("{source}", self.source), encoding="utf-8")
        return Pipeline(
            name="sql", modules=paths, storage=self.folder / "storage", spark=self.spark, development=True,
            configuration={"least": "3", "factor": str(factor)},
        )  # fmt: skip

    def updated(self, files: Mapping[str, str], factor: int = 10) -> tuple[Pipeline, set[str]]:
        """The pipeline after an update, and the tables that this update skipped."""
        made = self.pipeline(files, factor)
        skipped = {step.dataset.table for step in made.plan().steps if isinstance(step, SkipStep)}
        assert made.run().state is UpdateState.COMPLETED
        return made, skipped


def test_declarations_keep_their_rows_wherever_they_move(spark: SparkSession, tmp_path: Path) -> None:
    """To another line, another file, Python and back: a flow goes on, and a view is computed only for a change.

    A parameter is part of a query. USE changes what names mean, and not those of temporary views.
    """
    world = _World(spark, tmp_path)
    world.append(range(10))
    made, _ = world.updated({"a.sql": EVENTS + VIEWS})
    events = [(number, str(number)) for number in range(9)]
    assert rows(made, spark, "main.default.events") == events
    assert rows(made, spark, "other.gold.totals") == [(3, 2)]
    assert rows(made, spark, "other.gold.copied") == [(3,)]
    assert rows(made, spark, "other.gold.scaled") == [(number * 10,) for number in range(9)]
    assert rows(made, spark, "main.default.compared") == [(0, "6"), (1, "7"), (2, "8")]
    comments = {field.name: field.metadata.get("comment") for field in made.table("other.gold.totals").schema}
    assert comments == {"n": "number of rows", "largest": None}

    views = {"totals", "copied", "scaled", "compared"}
    assert world.updated({"b.sql": "-- moved\n\n" + VIEWS, "a.sql": EVENTS})[1] == {"events", *views}
    _, skipped = world.updated({"a.py": PYTHON, "b.sql": VIEWS}, factor=100)
    assert skipped == {"events", "totals", "copied", "compared"}
    world.append(range(2, 4))
    made, _ = world.updated({"a.sql": EVENTS, "b.sql": VIEWS}, factor=100)
    assert rows(made, spark, "main.default.events") == sorted([*events, (2, "2"), (3, "3")], key=repr)
    assert rows(made, spark, "other.gold.totals") == [(4, 2)]


FAULTY = """CREATE STREAMING TABLE batch AS
SELECT 1 AS id;
CREATE MATERIALIZED VIEW unknown AS
SELECT id,
  nmae
FROM VALUES (1) AS t(id);
CREATE MATERIALIZED VIEW parsed AS SELECT 1 AS id
FRM x;
CREATE MATERIALIZED VIEW missing AS
  SELECT * FROM nowhere;
CREATE MATERIALIZED VIEW named (a, b) AS
SELECT 1;
CREATE MATERIALIZED VIEW checked (
  id INT,
  CONSTRAINT a EXPECT (id >)) AS SELECT 1 AS id;
"""


def test_faults_of_queries_have_the_lines_of_the_file(spark: SparkSession, tmp_path: Path) -> None:
    """Spark counts from the first line of a query; an error at run time names the line too."""
    world = _World(spark, tmp_path)
    world.append(range(1))
    with pytest.raises(GraphErrors) as caught:
        world.pipeline({"a.sql": FAULTY}).validate()
    places = [(error.condition, error.location and error.location.line) for error in caught.value.errors]
    assert sorted(places, key=lambda place: place[1] or 0) == [
        ("INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE", 1),
        ("FLOW_QUERY_FAILED", 5),
        ("FLOW_QUERY_FAILED", 8),
        ("TABLE_OR_VIEW_NOT_FOUND", 10),
        ("CREATE_VIEW_COLUMN_ARITY_MISMATCH", 12),
        ("INVALID_ARGUMENT.EXPRESSION", 15),
    ]
    failing = "-- first\nCREATE MATERIALIZED VIEW v AS\nSELECT 1 / (id - id) AS x FROM range(3);\n"
    result = world.pipeline({"a.sql": failing}).run()
    (flow,) = result.flows
    assert flow.error is not None
    assert json.dumps(str(tmp_path / "a.sql"))[1:-1] + ":2" in flow.error.render()
    assert "1 / (id - id)" in flow.error.render()


def test_a_new_project_in_sql_has_the_rows_of_its_own_test(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the project in Python with its declarations in SQL, and its tests in YAML."""
    folder, paths = create_project("shop", tmp_path, language="sql")
    in_python = create_project("other", tmp_path)[1]
    own = {Path("transformations/shop.sql"), Path("tests/shop.unit_tests.yml"), Path("bundles/shop.yml")}
    assert set(paths) - set(in_python) == own
    monkeypatch.chdir(folder)
    made = Pipeline.from_spec("pipeline.yml", storage=tmp_path / "storage", spark=spark)
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "main.shop.customers") == [
        (1, "Ada", "London"), (2, "Grace", "Boston"), (4, "Linus", "Helsinki")
    ]  # fmt: skip
    assert rows(made, spark, "main.shop.revenue_by_city") == [
        ("Boston", 2, 60.0), ("Helsinki", 1, 12.25), ("London", 3, 75.5)
    ]  # fmt: skip
