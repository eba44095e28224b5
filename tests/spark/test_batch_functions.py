"""Functions of `foreach_batch_sink` read the tables of the pipeline by name, as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.foundation.errors import SluiceError
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each function found in one update, or its error."""
    world = EngineWorld(spark, tmp_path_factory.mktemp("world"))
    world.feed([(1, "Ann"), (2, "Bob")], "id INT, name STRING", "people")
    world.feed([(1,), (7,)], "id INT")
    found: dict[str, Any] = {}
    result = world.run(_shop(world, found))
    found |= {flow.flow.table: flow.error for flow in result.flows if flow.error is not None}
    return found


def _shop(world: EngineWorld, found: dict[str, Any]) -> Callable[[], None]:
    spark = world.spark

    def declare() -> None:
        @dp.table
        def people() -> DataFrame:
            return spark.readStream.format("delta").load(world.source("people"))

        @dp.temporary_view
        def named() -> DataFrame:
            return spark.read.table("people").where("id = 1")

        _sink(world, "by_reader", lambda batch: batch.join(spark.read.table("people"), "id"), found)
        _sink(world, "by_full_name", lambda batch: batch.sparkSession.table("main.s.people"), found)
        _sink(world, "by_sql", lambda batch: batch.sparkSession.sql("SELECT id, name FROM people WHERE id = 2"), found)
        _sink(world, "by_view", lambda _: spark.table("named"), found)
        _sink(world, "shadowed", _shadowed, found)
        _sink(world, "command", lambda batch: _command(world, batch), found)
        _sink(world, "unknown", lambda _: spark.read.table("poeple"), found)
        _sink(world, "once", lambda _: spark.read.table("people"), found, once=True)

    return declare


def _sink(
    world: EngineWorld, name: str, query: Callable[[DataFrame], DataFrame], found: dict[str, Any], *, once: bool = False
) -> None:
    @dp.foreach_batch_sink(name=name)
    def write(batch: DataFrame, _number: int) -> None:
        found[name] = sorted(map(tuple, query(batch).collect()))

    @dp.append_flow(target=name, name=f"to_{name}", once=once)
    def rows() -> DataFrame:
        world.spark.read.table("people")  # the sink runs after the table is updated
        return world.spark.range(1) if once else world.spark.readStream.format("delta").load(world.source())


def _shadowed(batch: DataFrame) -> DataFrame:
    """A temporary view with the name of a table, as in examples of `foreachBatch`."""
    batch.createOrReplaceTempView("people")
    return batch.sparkSession.sql("SELECT * FROM people")


def _command(world: EngineWorld, batch: DataFrame) -> DataFrame:
    batch.createOrReplaceTempView("updates")
    source, target = f"delta.`{world.source('people')}`", f"delta.`{world.root}/copy`"
    batch.sparkSession.sql(f"CREATE TABLE {target} USING delta AS SELECT * FROM {source}")
    batch.sparkSession.sql(
        f"MERGE INTO {target} t USING updates u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)"
    )
    return world.spark.read.format("delta").load(str(Path(world.root) / "copy"))


def test_names_are_those_of_stored_tables(outcome: dict[str, Any]) -> None:
    """By the reader, the session and SQL, with a full name and without, also in a once flow, and through a view."""
    everybody = [(1, "Ann"), (2, "Bob")]
    expected = {
        "by_reader": [(1, "Ann")], "by_full_name": everybody, "by_sql": [(2, "Bob")], "by_view": [(1, "Ann")],
        "once": everybody,
    }  # fmt: skip
    assert {name: outcome.get(name, outcome.get(f"to_{name}")) for name in expected} == expected


def test_temporary_views_and_commands_are_sparks(outcome: dict[str, Any]) -> None:
    """A temporary view that the function makes comes before a table of its name; `MERGE INTO` runs."""
    assert outcome["shadowed"] == [(1,), (7,)]
    assert sorted(outcome["command"], key=repr) == [(1, "Ann"), (2, "Bob"), (7, None)]


def test_an_unknown_name_is_an_error_that_proposes_the_right_one(outcome: dict[str, Any]) -> None:
    """The error is that of query functions."""
    error = outcome["to_unknown"]
    assert isinstance(error, SluiceError)
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(error)
    assert "main.s.people" in str(error)
