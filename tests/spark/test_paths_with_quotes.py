"""A storage and its sources may be in folders whose names have backticks, quotes, spaces, percent and number signs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import pipelines as dp
from framework.recovery.backups import list_backups
from framework.recovery.references import FolderReference, parse_reference
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld, forget_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

FOLDER = 'it\'s a `store` "x" %41 #1 $2'
EVENTS = "id INT, name STRING, operation STRING, seq INT"


def declarations(spark: SparkSession, world: EngineWorld) -> Callable[[], None]:
    """One dataset of each kind, and readers of tables and of a change feed."""

    def declare() -> None:
        @dp.table(table_properties={"delta.enableChangeDataFeed": "true"})
        @dp.expect_or_drop("named", "name IS NOT NULL")
        def events() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

        @dp.table
        def appended() -> DataFrame:
            return spark.readStream.table("events")

        @dp.materialized_view
        def counted() -> DataFrame:
            return spark.read.table("people").groupBy("name").count()

        dp.create_streaming_table("people", table_properties={"delta.enableChangeDataFeed": "true"})
        dp.create_streaming_table("followers")
        common: dict[str, Any] = {
            "keys": ["id"], "apply_as_deletes": "operation = 'DELETE'", "except_column_list": ["operation"],
        }  # fmt: skip
        dp.create_auto_cdc_flow(target="people", source="events", sequence_by="seq", **common)

        @dp.temporary_view
        def feed() -> DataFrame:
            changes = spark.readStream.option("readChangeFeed", "true").table("people")
            return changes.where("_change_type <> 'update_preimage'").drop("_commit_timestamp")

        dp.create_auto_cdc_flow(
            target="followers", source="feed", keys=["id"], sequence_by="_commit_version",
            apply_as_deletes="_change_type = 'delete'", except_column_list=["_change_type", "_commit_version"],
        )  # fmt: skip

    return declare


def test_updates_after_full_refreshes_are_right_in_a_folder_with_quotes(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Each kind of dataset, its readers, the copies of a full refresh with history, a rewind, and a query by path."""
    world = EngineWorld(interpreting, tmp_path / FOLDER)
    declare = declarations(interpreting, world)

    def run(rows: list[tuple[Any, ...]], **request: Any) -> str:
        world.feed(rows, EVENTS)
        result = world.run(declare, **request)
        assert result.state is UpdateState.COMPLETED, [str(flow.error) for flow in result.flows if flow.error]
        forget_tables()
        return result.update_id

    run([(1, "Ann", "UPSERT", 1), (2, "Bob", "UPSERT", 2), (3, None, "UPSERT", 3)])
    run([(1, "Anna", "UPSERT", 4)], full_refresh_all=True)
    before = run([(2, "Bob", "DELETE", 5), (4, "Dan", "UPSERT", 6)])
    expected = [(1, "Anna", 4), (4, "Dan", 6)]
    assert world.rows("people") == world.rows("followers") == expected
    assert world.rows("counted") == [("Anna", 1), ("Dan", 1)]
    assert world.rows("appended") == world.rows("events")
    assert len(world.rows("appended")) == 5
    run([(5, "Eve", "UPSERT", 7)], full_refresh=("people",), keep_history=True)
    assert world.rows("people") == expected
    pipeline = world.pipeline(declare)
    (backup,) = list_backups(pipeline.storage)
    assert backup.backup.comparison is not None
    folder = world.path("people").replace("`", "``")
    by_path = pipeline.reconcile("people", f"delta.`{folder}`")
    assert (by_path.is_equal, by_path.first.rows) == (True, 2)
    assert [tuple(row) for row in pipeline.sql("SELECT count(*) FROM people").collect()] == [(2,)]
    pipeline.rewinds.rewind(pipeline.rewinds.plan(before), "a test")
    forget_tables()
    assert (len(world.rows("events")), len(world.rows("appended"))) == (5, 5)
    run([(7, "Gil", "UPSERT", 9)])
    assert world.rows("people") == world.rows("followers") == [*expected, (5, "Eve", 7), (7, "Gil", 9)]


def test_a_folder_of_a_comparison_has_its_backticks_doubled() -> None:
    """As in SQL, and as the copies of a full refresh name their folders."""
    assert parse_reference("delta.`/a``b/c`@v3") == FolderReference(path="/a`b/c", version=3)
    assert parse_reference("delta.`/a b/c'd`") == FolderReference(path="/a b/c'd")
