"""Delay statistics: by carrier and day, by origin and weather, by destination, and by plane."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework import pipelines as dp

LATE = 15  # minutes; the industry counts a flight as late from here on


@dp.materialized_view(comment="Departure delays by carrier and day")
def delay_by_carrier_and_day() -> DataFrame:
    """One row for each carrier and local day."""
    return (
        spark.read.table("flights")
        .where("dep_delay IS NOT NULL")
        .join(spark.read.table("airlines"), "carrier")
        .groupBy("flight_date", "carrier", F.col("name").alias("airline"))
        .agg(
            F.count("*").alias("flights"),
            F.avg("dep_delay").alias("mean_delay_minutes"),
            F.max("dep_delay").alias("worst_delay_minutes"),
            F.count_if(F.col("dep_delay") >= LATE).alias("late_flights"),
        )
    )


@dp.materialized_view(comment="Departure delays by origin and by the weather at the scheduled hour")
def delay_by_origin_and_weather() -> DataFrame:
    """One row for each origin and kind of weather; the worst kind that applies."""
    return spark.sql(f"""
        SELECT f.origin,
               CASE WHEN w.visib < 3 THEN 'fog or heavy snow'
                    WHEN w.precip > 0 THEN 'rain or snow'
                    WHEN w.wind_speed >= 20 THEN 'strong wind'
                    ELSE 'fair' END AS weather,
               count(*) AS flights,
               avg(f.dep_delay) AS mean_delay_minutes,
               count_if(f.dep_delay >= {LATE}) / count(*) AS late_share
        FROM flights f
        JOIN weather_observations w
          ON w.origin = f.origin AND w.time_hour = date_trunc('HOUR', f.scheduled_departure)
        WHERE f.dep_delay IS NOT NULL
        GROUP BY ALL
    """)


@dp.materialized_view(comment="Arrival delays by destination")
def delay_by_destination() -> DataFrame:
    """One row for each destination, with its coordinates if they are known."""
    arrived = spark.read.table("flights").where("arr_delay IS NOT NULL")
    return (
        arrived.join(spark.read.table("airports"), F.col("dest") == F.col("faa"), "left")
        .groupBy("dest", F.col("name").alias("airport"), "lat", "lon")
        .agg(F.count("*").alias("flights"), F.avg("arr_delay").alias("mean_delay_minutes"))
    )


@dp.materialized_view(comment="The 25 planes with the highest mean arrival delay, of those with 20 or more flights")
def worst_tails() -> DataFrame:
    """One row for each plane, with its manufacturer, model and year if they are known."""
    arrived = spark.read.table("flights").where("arr_delay IS NOT NULL AND tailnum IS NOT NULL")
    return (
        arrived.groupBy("tailnum")
        .agg(F.count("*").alias("flights"), F.avg("arr_delay").alias("mean_delay_minutes"))
        .where("flights >= 20")
        .orderBy(F.desc("mean_delay_minutes"), "tailnum")
        .limit(25)
        .join(spark.read.table("planes").select("tailnum", "manufacturer", "model", "year"), "tailnum", "left")
    )
