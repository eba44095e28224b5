"""SQL of a Databricks workspace: functions of catalogs, DISTINCT over streams, keys that modules set."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from framework import Pipeline
from framework.run.update.results import UpdateState
from tests.support.plain_tables import table_rows

MODULE = """
CREATE OR REPLACE FUNCTION main.default.price(cents BIGINT) RETURNS DOUBLE COMMENT 'x' RETURN cents / 100;
USE SCHEMA tools;
CREATE FUNCTION IF NOT EXISTS twice(x DOUBLE) RETURNS DOUBLE RETURN x * 2;
CREATE TEMPORARY FUNCTION ids() RETURNS TABLE (id INT) RETURN SELECT explode(array(1, 2)) AS id;
USE main.default;
CREATE OR REPLACE MATERIALIZED VIEW prices AS
SELECT main.default.price(250) AS a, `Default`.price(100) AS b, tools.twice(main.tools.twice(1)) AS c, count(*) AS n
FROM ids() WHERE 'price(1)' <> '' AND id = id;
CREATE STREAMING TABLE landed AS SELECT id, name FROM STREAM read_files('{folder}', format => 'json');
CREATE STREAMING TABLE once AS SELECT DISTINCT id FROM STREAM landed;
CREATE STREAMING TABLE united AS
SELECT * FROM (SELECT id, name FROM STREAM landed UNION SELECT id, upper(name) FROM STREAM landed) WHERE id < 3;
SELECT * FROM once;
"""


def rows(made: Pipeline, spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    """The stored rows of a table, sorted."""
    path = made.storage.path("tables", "main", "default", table)
    return sorted(map(tuple, table_rows(spark, path, without="__sluice")), key=repr)


def land(folder: Path, name: str, *found: tuple[int, str]) -> None:
    """Write a file of rows."""
    lines = (json.dumps({"id": number, "name": text}) for number, text in found)
    (folder / name).write_text("\n".join(lines), encoding="utf-8")


def test_functions_of_a_catalog_and_distinct_streams_have_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A function is found by each of its names; a row that came in an earlier update is appended once."""
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "a.sql").write_text(MODULE.replace("{folder}", str(folder)), encoding="utf-8")
    made = Pipeline(
        name="workspace", modules=[tmp_path / "a.sql"], storage=tmp_path / "storage", spark=spark, development=True
    )
    land(folder, "1.json", (1, "a"), (1, "a"), (2, "b"))
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "prices") == [(2.5, 1.0, 4.0, 2)]
    assert rows(made, spark, "once") == [(1,), (2,)]
    land(folder, "2.json", (2, "b"), (2, "c"), (3, "d"))
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "once") == [(1,), (2,), (3,)]
    assert rows(made, spark, "united") == [(1, "A"), (1, "a"), (2, "B"), (2, "C"), (2, "b"), (2, "c")]
    assert [each.condition for each in made.validate().warnings] == ["STATEMENT_PASSED_OVER"]
