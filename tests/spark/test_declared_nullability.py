"""What may be NULL inside arrays, maps and structs: in the declared schema of a table, and in its query."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from framework import pipelines as dp
from framework.foundation.errors import GraphErrors
from framework.recovery.doctor.diagnosis import Way
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import stored_schema, table_rows


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """A pipeline in a folder of its own."""
    return EngineWorld(spark, tmp_path)


def test_values_that_cannot_be_null_fit_a_schema_that_allows_null(world: EngineWorld) -> None:
    """In views and in streams of two flows; the fields in the tables have the declared comments."""
    schema = "parts ARRAY<STRING>, one MAP<STRING, INT>, s STRUCT<n: INT NOT NULL, id: LONG COMMENT 'its number'>"
    values = ["split(v, ',') AS parts", "map('k', 1) AS one", "named_struct('n', 2, 'id', id) AS s"]

    def declare() -> None:
        @dp.materialized_view(schema=schema)
        def view() -> DataFrame:
            return world.spark.read.format("delta").load(world.source("letters")).selectExpr(*values)

        def stream(condition: str) -> DataFrame:
            letters = world.spark.readStream.format("delta").load(world.source("letters"))
            return letters.where(condition).selectExpr(*values)

        dp.create_streaming_table("stream", schema=schema)
        dp.append_flow(target="stream", name="first")(lambda: stream("id = 1"))
        dp.append_flow(target="stream", name="others")(lambda: stream("id <> 1"))

    rows = [(["a", "b"], {"k": 1}, (2, 1)), (None, {"k": 1}, (2, 2))]
    for count, letters in enumerate(((1, "a,b"), (2, None)), 1):
        world.feed([letters], "id LONG, v STRING", "letters")
        world.run(declare)
        for name in ("view", "stream"):
            assert sorted(map(tuple, table_rows(world.spark, world.path(name))), key=lambda row: row[2]) == rows[:count]
            struct = stored_schema(world.path(name))["s"].dataType
            assert isinstance(struct, StructType)
            assert [field.metadata for field in struct.fields] == [{}, {"comment": "its number"}]


def test_fields_that_may_be_null_but_must_not_are_named(world: EngineWorld) -> None:
    """The types are equal, so their texts would not show what is wrong; other fields are not named."""

    def declare() -> None:
        @dp.materialized_view(schema="s STRUCT<id: LONG NOT NULL>, entries ARRAY<STRUCT<n: INT NOT NULL, m: INT>>")
        def view() -> DataFrame:
            entries = "array(named_struct('n', 1, 'm', 2)) AS entries"
            return world.spark.range(1).selectExpr("struct(nullif(id, 1) AS id) AS s", entries)

    with pytest.raises(GraphErrors) as caught:
        world.run(declare)
    (fault,) = caught.value.errors
    assert fault.condition == "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE"
    assert fault.fields["columns"] == "s.id (nullable, but declared NOT NULL)"


def test_a_column_that_may_be_null_now_takes_null_after_what_the_doctor_says(world: EngineWorld) -> None:
    """NOT NULL that leaves the declaration stays in the table; the doctor has the statement that removes it."""
    schema = ["id INT NOT NULL, name STRING"]

    def declare() -> None:
        @dp.table(schema=schema[0])
        def letters() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    world.feed([(1, "a")], "id INT, name STRING")
    world.run(declare)
    schema[0] = "id INT, name STRING"
    world.feed([(None, "b")], "id INT, name STRING")
    assert world.run(declare).state is UpdateState.FAILED
    (finding,) = world.pipeline(declare).doctor.examine().findings
    (text,) = (way.text for way in finding.ways if way.way is Way.ALLOW_NULL)
    world.spark.sql(text[text.index("ALTER TABLE") :])
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("letters") == [(1, "a"), (None, "b")]
