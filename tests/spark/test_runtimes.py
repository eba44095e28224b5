"""`runtime` of a spec: queries have the rows of an older runtime of Databricks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.declare.runtimes import runtime_settings
from framework.foundation.errors import GraphErrors
from tests.support.plain_tables import table_rows

MODULE = """import dlt


@dlt.table
def found():
    return spark.sql('''SELECT text, text / '4' AS ratio, CAST(text AS INT) AS whole, 127Y + 1Y AS sum,
        text ! IN ('1') AS other, CAST(encode('é', 'us-ascii') AS STRING) AS encoded
        FROM VALUES ('10'), ('x') AS t(text)''')
"""


def made(spark: SparkSession, folder: Path, runtime: str) -> Pipeline:
    """The pipeline of the module, of a runtime."""
    (folder / "m.py").write_text(MODULE, "utf-8")
    spec = folder / "pipeline.yml"
    spec.write_text(f'name: p\nruntime: "{runtime}"\nlibraries: [{{file: {{path: m.py}}}}]\n', "utf-8")
    return Pipeline.from_spec(spec, spark=spark)


def test_a_query_has_the_rows_of_the_runtime_that_it_was_written_for(spark: SparkSession, tmp_path: Path) -> None:
    """Strings divide, values that don't fit are NULL or wrap around, and `!` stands for NOT before IN."""
    pipeline = made(spark, tmp_path, "14.3 LTS")
    assert pipeline.run().state == "COMPLETED"
    path = pipeline.storage.path("tables", "main", "default", "found")
    assert sorted(map(tuple, table_rows(spark, path))) == [
        ("10", 2.5, 10, -128, True, "?"),
        ("x", None, None, -128, True, "?"),
    ]
    with pytest.raises(GraphErrors):
        made(spark, tmp_path, "17.3").validate()


def test_each_setting_of_a_runtime_is_one_that_this_spark_has_otherwise(spark: SparkSession) -> None:
    """A setting that Spark does not know, or has by default, would have no effect."""
    fresh = spark.newSession()
    found = dict(runtime_settings("13.3"))
    assert {key for key, value in found.items() if (fresh.conf.get(key) or "").upper() == value.upper()} == set()
    assert [len(runtime_settings(each)) for each in ("13.3", "14.3", "15.4", "16.4", "17.3", "18.0")] == [
        12, 12, 11, 11, 4, 1,
    ]  # fmt: skip
