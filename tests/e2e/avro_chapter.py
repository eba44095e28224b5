"""Avro files of several schemas: a chapter of `kafka_story.py`, whose class path has the reader of Avro."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from framework import pipelines as dp
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MODES = {"evolved": "addNewColumns", "rescued": "rescue"}


def avro_chapter(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Return the rows of a table for each mode, and of a view, after two updates with two files each."""
    world, files = EngineWorld(spark, folder), folder / "files"

    def write(ddl: str, *values: Any) -> None:
        frame = spark.createDataFrame([values], ddl).selectExpr("*", "NULL AS nothing")
        frame.coalesce(1).write.format("avro").mode("append").save(str(files))

    def run() -> dict[str, Any]:
        result = world.run(_declare(spark, files))
        assert all(flow.error is None for flow in result.flows), result.flows
        return {name: [list(map(str, row)) for row in world.rows(name)] for name in (*_MODES, "view")}

    write("id INT, v STRING, price DECIMAL(5,2)", 1, "a", Decimal("1.25"))
    write("v STRING, id BIGINT, price DECIMAL(9,4)", "b", 2**40, Decimal("12345.1234"))
    first = run()
    write("id BIGINT, v STRING", 3, "c")
    write("id STRING, more INT", "x", 7)
    return {"first": first, "second": run()}


def _declare(spark: SparkSession, files: Path) -> Callable[[], None]:
    def declared() -> None:
        for name, mode in _MODES.items():

            @dp.table(name=name)
            def rows(mode: str = mode) -> DataFrame:
                options = {"cloudFiles.format": "avro", "cloudFiles.schemaEvolutionMode": mode}
                found = spark.readStream.format("cloudFiles").options(**options).load(str(files))
                return found.withColumn("_rescued_data", F.regexp_replace("_rescued_data", ',"_file_path":"[^"]*"', ""))

        @dp.materialized_view
        def view() -> DataFrame:
            return spark.sql(f"SELECT * EXCEPT (_rescued_data) FROM read_files('{files}', format => 'avro')")

    return declared
