"""Tests in the form of Databricks' API for unit tests run here as they are: the four subjects of its documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.pipelines.testing import TestPipeline, test_spark  # noqa: F401 - a fixture
from pyspark.testing import assertDataFrameEqual

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

test_pipeline = TestPipeline.active()

GUESTS, BY_STATUS = "travel.inns.guests", "travel.inns.guests_by_status"
ROOMS, TARIFFS = {"travel.inns.rooms"}, {"travel.inns.tariffs"}
STAYS = {"travel.inns.reviewed_stays"}


def register(session: SparkSession) -> None:
    """Four guests, two of them without a phone."""
    session.sql("""
        CREATE TABLE travel.inns.registrations AS
        SELECT * FROM VALUES
            (1, '555-1', 'Ann', 'gold'), (2, NULL, 'Bert', 'plain'),
            (3, '555-3', 'Cleo', 'plain'), (4, NULL, 'Dan', 'gold')
        AS t(guest_id, phone, name, status)
    """)


def test_aggregates(test_spark: SparkSession) -> None:  # noqa: F811 - the fixture
    """One selected table has its rows and columns; with the second one, its aggregates."""
    register(test_spark)
    status = test_pipeline.run(test_spark, {GUESTS})
    guests = test_spark.table(GUESTS)

    assert status.is_success
    assert {"guest_id", "phone", "name", "status"} == {field.name for field in guests.schema.fields}
    assert (4, 2) == (guests.count(), guests.filter("phone IS NULL").count())
    assert not test_spark.catalog.tableExists(BY_STATUS)

    test_pipeline.run(test_spark, {GUESTS, BY_STATUS})
    expected = test_spark.createDataFrame([("gold", 2, 1), ("plain", 2, 1)], ["status", "guests", "with_phone"])
    assertDataFrameEqual(test_spark.table("guests_by_status"), expected)
    assert [("gold", 2)] == [
        tuple(row) for row in test_spark.sql(f"SELECT status, guests FROM {BY_STATUS} WHERE status = 'gold'").collect()
    ]


def test_late_changes(test_spark: SparkSession) -> None:  # noqa: F811 - the fixture
    """The second run reads what was inserted since the first; an older change of a key does not win."""
    test_spark.sql("""
        CREATE TABLE travel.inns.room_feed AS
        SELECT * FROM VALUES (1, 'blue', 100), (2, 'red', 101), (1, 'green', 102) AS t(room, colour, at)
    """)
    test_pipeline.run(test_spark, ROOMS)
    rooms = test_spark.table("travel.inns.rooms")
    assert {(1, "green", 102), (2, "red", 101)} == {tuple(row) for row in rooms.collect()}

    test_spark.sql("INSERT INTO travel.inns.room_feed VALUES (1, 'white', 103), (2, 'grey', 99)")
    status = test_pipeline.run(test_spark, ROOMS)
    rooms = test_spark.table("travel.inns.rooms")
    assert {(1, "white", 103), (2, "red", 101)} == {tuple(row) for row in rooms.collect()}
    (changes,) = (info for name, info in status.flow_info.items() if name.startswith("travel.inns.rooms"))
    assert 1 == changes.records_written


def test_snapshots(test_spark: SparkSession) -> None:  # noqa: F811 - the fixture
    """A table that is emptied and filled again is the next snapshot: one key ends, one gets a second version."""
    prices = test_spark.createDataFrame([("summer", 90), ("winter", 60)], "season STRING, price INT")
    prices.write.saveAsTable("travel.inns.prices")
    test_pipeline.run(test_spark, TARIFFS)
    test_spark.sql("TRUNCATE TABLE travel.inns.prices")
    test_spark.sql("INSERT INTO travel.inns.prices VALUES ('winter', 70)")
    test_pipeline.run(test_spark, TARIFFS)

    tariffs = test_spark.table("travel.inns.tariffs")
    assert [("winter", 60, True), ("winter", 70, False), ("summer", 90, True)] == [
        tuple(row) for row in tariffs.selectExpr("season", "price", "__END_AT IS NOT NULL").orderBy("price").collect()
    ]


@pytest.mark.parametrize("is_old", [False, True])
def test_joins_and_expectations(test_spark: SparkSession, is_old: bool) -> None:  # noqa: F811, FBT001 - the fixture
    """A row that violates the expectation is not in the table; the event log of the test counts it."""
    test_spark.sql("""
        CREATE TABLE travel.inns.stays AS
        SELECT * FROM VALUES (1, '2024-02-01'), (2, '2024-12-20') AS t(stay, checked_out)
    """)
    test_spark.sql("CREATE TABLE travel.inns.reviews AS SELECT * FROM VALUES (1, 5), (2, 3) AS t(stay, stars)")
    if is_old:
        test_spark.sql("INSERT INTO travel.inns.stays VALUES (3, '2023-12-31')")
        test_spark.sql("INSERT INTO travel.inns.reviews VALUES (3, 1)")
    status = test_pipeline.run(test_spark, STAYS)

    assert {(1, 5), (2, 3)} == {
        tuple(row) for row in test_spark.table("reviewed_stays").select("stay", "stars").collect()
    }
    assert status.event_log_table_name is not None
    events = test_spark.table(status.event_log_table_name).filter("event_type = 'flow_progress'")
    failed = events.selectExpr(
        "sum(get_json_object(details, '$.flow_progress.data_quality.expectations[0].failed_records'))"
    )
    assert (1 if is_old else 0) == failed.collect()[0][0]
