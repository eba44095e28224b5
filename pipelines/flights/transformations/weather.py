"""Hourly weather at the three airports."""

from __future__ import annotations

from pyspark.sql import DataFrame

from framework import pipelines as dp

WEATHER_SCHEMA = """
    origin STRING, time_hour TIMESTAMP, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir DOUBLE,
    wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE
"""


@dp.table(comment="Hourly observations; speeds in miles an hour, visibility in miles, precipitation in inches")
@dp.expect_or_drop("wind speed is possible", "wind_speed BETWEEN 0 AND 250")
@dp.expect_all({"pressure was measured": "pressure IS NOT NULL", "wind has a direction": "wind_dir IS NOT NULL"})
def weather_observations() -> DataFrame:
    """The observations; one in February has a wind speed of 1,048 miles an hour."""
    weather = spark.readStream.format("json").schema(WEATHER_SCHEMA)
    return weather.load(f"{spark.conf.get('flights.data')}/weather")
