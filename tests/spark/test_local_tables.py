"""Tables and functions of other catalogs that this machine has elsewhere: for queries, streams, and loading modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline
from framework.foundation.errors import GraphErrors
from tests.support.plain_tables import append_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = """
from pyspark import pipelines as dp

LEAST = spark.sql("SELECT min(size) FROM meta.feeds").first()[0]
for row in spark.read.table("meta.feeds").where(f"size >= {LEAST}").collect():
    @dp.materialized_view(name=row.name)
    def feed(size=row.size):
        return spark.range(size)


@dp.materialized_view
def joined():
    trips = spark.sql("SELECT trips.zip, f.name FROM samples.taxi.trips JOIN meta.feeds f ON trips.zip = f.size")
    return trips.union(spark.table("`samples`.taxi.trips").selectExpr("zip", "'all'"))


@dp.table
def streamed():
    return spark.readStream.table("samples.taxi.trips").select("zip")


@dp.materialized_view
def asked():
    return spark.sql("SELECT zip, main.tools.half(zip) AS half, ai_query('m', zip) AS text FROM samples.taxi.trips")


@dp.table
def of_other():
    return spark.readStream.table("shop.sales.orders")
"""
LOCAL = """
tables:
  main.meta.feeds: {path: feeds}
  samples.taxi.trips: {format: csv, path: trips, header: true, inferSchema: true}
  shop.sales.orders: {pipeline: other, table: orders}
functions: {main.tools.half: stubs.half, ai_query: stubs.answer}
"""
STUBS = """
def half(number) -> float:
    return number / 2


def answer(model, question):
    return f"{model}: {question}"
"""


def test_a_name_of_tables_is_read_wherever_a_table_is(spark: SparkSession, tmp_path: Path) -> None:
    """Delta and CSV files, as batches and as streams; a table of another pipeline; new rows are read once."""
    here, other = tmp_path / "here", tmp_path / "here" / "other"
    for folder in (here / "trips", other):
        folder.mkdir(parents=True)
    append_rows(spark, str(here / "feeds"), [("red", 2), ("blue", 3)], "name STRING, size INT")
    (here / "trips" / "1.csv").write_text("zip,fare\n2,1.5\n7,2.5\n", "utf-8")
    append_rows(spark, str(other / "kept" / "tables" / "lab" / "s" / "orders"), [(1,)], "id INT")
    (other / "pipeline.yml").write_text("name: o\nstorage: kept\ncatalog: lab\nschema: s\n", "utf-8")
    (here / "pipeline.yml").write_text("name: p\nlibraries: [{file: {path: m.py}}]\n", "utf-8")
    (here / "m.py").write_text(MODULE, "utf-8")

    with pytest.raises(GraphErrors) as caught:
        Pipeline.from_spec(here / "pipeline.yml", spark=spark).validate()
    (error,) = caught.value.errors
    assert (error.condition, error.location and error.location.line) == ("MODULE_FAILED", 4)
    assert "`tables` in sluice.local.yml" in error.render()

    (here / "sluice.local.yml").write_text(LOCAL, "utf-8")
    with pytest.raises(GraphErrors) as caught:
        Pipeline.from_spec(here / "pipeline.yml", spark=spark).validate()
    missing = [error.fields["name"] for error in caught.value.errors if error.condition == "LOCAL_FUNCTION_MISSING"]
    assert missing == ["main.tools.half", "ai_query"]
    (here / "stubs.py").write_text(STUBS, "utf-8")

    def run() -> dict[str, list[tuple[object, ...]]]:
        pipeline = Pipeline.from_spec(here / "pipeline.yml", spark=spark)
        assert pipeline.run().state == "COMPLETED"
        tables = here / ".sluice" / "p" / "tables" / "main" / "default"
        return {each.name: sorted(tuple(row) for row in table_rows(spark, str(each))) for each in tables.iterdir()}

    assert run() == {
        "red": [(0,), (1,)],
        "blue": [(0,), (1,), (2,)],
        "joined": [(2, "all"), (2, "red"), (7, "all")],
        "streamed": [(2,), (7,)],
        "asked": [(2, 1.0, "m: 2"), (7, 3.5, "m: 7")],
        "of_other": [(1,)],
    }
    (here / "trips" / "2.csv").write_text("zip,fare\n3,9.5\n", "utf-8")
    append_rows(spark, str(other / "kept" / "tables" / "lab" / "s" / "orders"), [(2,)], "id INT")
    found = run()
    assert found["joined"] == [(2, "all"), (2, "red"), (3, "all"), (3, "blue"), (7, "all")]
    assert (found["streamed"], found["of_other"]) == ([(2,), (3,), (7,)], [(1,), (2,)])
