"""The current state of every flight: first the schedule, then each change event of the airport."""

from __future__ import annotations

from pyspark.sql import DataFrame

from framework import pipelines as dp

KEYS = ["flight_date", "carrier", "flight", "origin"]

EVENT_SCHEMA = """
    status STRING, event_time TIMESTAMP, sent_at TIMESTAMP,
    flight_date DATE, carrier STRING, flight INT, origin STRING, dest STRING, tailnum STRING,
    scheduled_departure TIMESTAMP, distance INT, dep_delay INT, arr_delay INT, air_time INT
"""


@dp.table(comment="Change events of the airport: late, out of order, some of them twice")
@dp.expect_or_drop("is about a flight", "flight IS NOT NULL")
@dp.expect("sent within an hour", "sent_at <= event_time + INTERVAL 1 HOUR")
def flight_events() -> DataFrame:
    """The change events without heartbeats, which have no flight."""
    events = spark.readStream.format("json").schema(EVENT_SCHEMA).option("maxFilesPerTrigger", 50)
    return events.load(f"{spark.conf.get('flights.data')}/events")


dp.create_streaming_table("flights", comment="The current state of every flight; cancelled flights are deleted")


@dp.snapshot_flow(target="flights", keys=KEYS)
def schedule() -> DataFrame:
    """The schedule before the start of the year."""
    planned = spark.read.parquet(f"{spark.conf.get('flights.data')}/schedule")
    return planned.selectExpr("'SCHEDULED' AS status", "*")


dp.create_auto_cdc_flow(
    name="changes",
    target="flights",
    source="flight_events",
    keys=KEYS,
    sequence_by="event_time",
    apply_as_deletes="status = 'CANCELLED'",
    except_column_list=["event_time", "sent_at"],
    stored_as_scd_type=1,
)
