"""Reference tables: airlines, airports and planes."""

from __future__ import annotations

from pyspark.sql import DataFrame

from framework import pipelines as dp


def read_csv(name: str, schema: str) -> DataFrame:
    """Read the file of a reference table; the source writes NA or nothing for unknown values."""
    files = spark.read.format("csv").schema(schema).option("header", value=True)
    return files.load(f"{spark.conf.get('flights.data')}/reference/{name}")


@dp.materialized_view
def airlines() -> DataFrame:
    """The names of carriers."""
    return read_csv("airlines", "carrier STRING, name STRING")


@dp.materialized_view
def airports() -> DataFrame:
    """Airports by their FAA code."""
    schema = "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING"
    return read_csv("airports", schema)


@dp.materialized_view
def planes() -> DataFrame:
    """Planes by tail number."""
    schema = """tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING,
                engines INT, seats INT, speed INT, engine STRING"""
    return read_csv("planes", schema)
