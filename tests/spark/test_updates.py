"""Guarantees of an update: every row exactly once, and no work without changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.foundation.errors import GraphErrors, UserError
from framework.run.update.results import FlowState, UpdateResult, UpdateState
from tests.support.engine_world import EngineWorld, states
from tests.support.plain_tables import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """A pipeline's storage and one source with three rows."""
    made = EngineWorld(spark, tmp_path)
    made.feed([(1, "a"), (2, "b"), (3, "c")], "id long, name string")
    return made


KILLED_TABLES = ("raw", "names")


def chain(world: EngineWorld, threshold: int = 1) -> Callable[[], None]:
    """Declares raw (all rows of the source) -> big (ids above a threshold, and a once flow) -> names (a view)."""

    def declare() -> None:
        spark = world.spark

        @dp.table
        def raw() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

        @dp.table
        def big() -> DataFrame:
            return spark.readStream.table("raw").where(f"id > {threshold}")

        @dp.append_flow(target="big", once=True)
        def seed() -> DataFrame:
            return spark.createDataFrame([(100, "seed")], "id long, name string")

        @dp.materialized_view
        def names() -> DataFrame:
            return spark.read.table("big").groupBy("name").count()

    return declare


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[EngineWorld, UpdateResult]:
    """The chain after its first update, and how that ended; tests go on from copies of it.

    A kill during the creation of two tables has left their log folders without a commit.
    """
    made = EngineWorld(spark, tmp_path_factory.mktemp("first"))
    made.feed([(1, "a"), (2, "b"), (3, "c")], "id long, name string")
    for table in KILLED_TABLES:
        Path(made.path(table), "_delta_log", "_staged_commits").mkdir(parents=True)
    return made, made.run(chain(made))


@pytest.fixture
def begun(first: tuple[EngineWorld, UpdateResult], tmp_path: Path) -> EngineWorld:
    """The chain after its first update, in a folder of the test."""
    return first[0].copy(tmp_path)


def test_a_first_update_fills_every_table_in_the_order_of_the_graph(first: tuple[EngineWorld, UpdateResult]) -> None:
    """Streaming tables, a once flow and a view have their rows after one update."""
    world, result = first
    assert result.state is UpdateState.COMPLETED
    assert set(states(result).values()) == {FlowState.COMPLETED}
    assert world.rows("raw") == [(1, "a"), (2, "b"), (3, "c")]
    assert world.rows("big") == [(100, "seed"), (2, "b"), (3, "c")]
    assert world.rows("names") == [("b", 1), ("c", 1), ("seed", 1)]
    assert {flow.flow.table: flow.rows_written for flow in result.flows} == {"raw": 3, "big": 2, "seed": 1, "names": 3}


def test_a_kill_during_the_first_write_of_offsets_does_not_block_the_flow(spark: SparkSession, tmp_path: Path) -> None:
    """The temporary file that Spark leaves beside the offsets fails no later start."""
    world, folder = EngineWorld(spark, tmp_path), tmp_path / "in"
    folder.mkdir()

    def declare() -> None:
        @dp.table
        def raw() -> DataFrame:
            return spark.readStream.schema("id INT").json(str(folder))

    world.run(declare)
    offsets = world.root / "storage/checkpoints/main.s.raw/main.s.raw/1/offsets"
    assert list(offsets.iterdir()) == []
    (offsets / ".0.5f0c.tmp").touch()
    (folder / "1.json").write_text('{"id": 1}', "utf-8")
    world.run(declare)
    assert world.rows("raw") == [(1,)]


def test_a_kill_during_the_creation_of_a_table_does_not_block_its_flows(
    first: tuple[EngineWorld, UpdateResult],
) -> None:
    """The log folder without a commit that Delta leaves is not a table."""
    world, _ = first
    assert all(Path(world.path(table), "_delta_log", "_staged_commits").exists() for table in KILLED_TABLES)
    assert [world.versions(table) for table in KILLED_TABLES] == [2, 1]


_LISTENERS_MILLISECONDS = 60_000


def jobs_of(spark: SparkSession) -> set[int]:
    """Return the numbers of the queries' jobs of a session; other workers have sessions in the same JVM.

    Spark lists a job when its listeners have heard of it, and forgets the oldest ones of the JVM (`MANY_JOBS`).
    """
    session: Any = spark._jsparkSession
    session.sparkContext().listenerBus().waitUntilEmpty(_LISTENERS_MILLISECONDS)
    return {*session.sparkContext().statusTracker().getJobIdsForTag(session.sessionJobTag())}


def test_new_tables_list_their_files_from_the_first_version_on(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever their definition: the list of an empty table is empty, and the next commit extends it."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a")], "id long, name string")

    def declare() -> None:
        def rows() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

        dp.table(name="plain")(rows)
        dp.table(name="parted", partition_cols=["name"])(rows)
        dp.table(name="dense", cluster_by=["id"])(rows)

    world.run(declare)
    for table in ("plain", "parted", "dense"):
        checksums = sorted(Path(world.path(table), "_delta_log").glob("[0-9]*.crc"))
        assert [len(json.loads(file.read_text("utf-8"))["allFiles"]) for file in checksums] == [0, 1]


def test_an_update_with_nothing_new_runs_no_spark_job_and_writes_no_commit(
    first: tuple[EngineWorld, UpdateResult],
) -> None:
    """Every flow is IDLE, no job ran, and no table has a new version."""
    world, _ = first
    before = {table: world.versions(table) for table in ("raw", "big", "names")}
    world.spark.range(2).repartition(2).count()
    jobs = jobs_of(world.spark)
    assert jobs, "a job of this session is seen"
    result = world.run(chain(world))
    assert result.is_idle
    assert set(states(result).values()) == {FlowState.IDLE}
    assert jobs_of(world.spark) <= jobs
    assert {table: world.versions(table) for table in before} == before


def test_new_rows_pass_through_once_and_what_they_do_not_touch_stands_still(begun: EngineWorld) -> None:
    """Of two more rows, one reaches `big`; the once flow does not run again.

    The view is replaced in one commit: its old rows stay until the commit with all of the new ones.
    """
    assert begun.versions("names") == 1
    begun.feed([(0, "z"), (4, "d")], "id long, name string")
    result = begun.run(chain(begun))
    assert states(result) == {
        "raw": FlowState.COMPLETED, "big": FlowState.COMPLETED, "seed": FlowState.IDLE, "names": FlowState.COMPLETED
    }  # fmt: skip
    assert begun.rows("big") == [(100, "seed"), (2, "b"), (3, "c"), (4, "d")]
    assert begun.rows("names") == [("b", 1), ("c", 1), ("d", 1), ("seed", 1)]
    assert begun.versions("names") == 2


def test_rows_that_end_before_a_view_leave_it_as_it_is(begun: EngineWorld) -> None:
    """`names` checks again when it starts, finds `big` unchanged, and is not computed."""
    begun.run(chain(begun))  # a view is computed again where its inputs lie elsewhere
    before = begun.versions("names")
    begun.feed([(-1, "z")], "id long, name string")
    result = begun.run(chain(begun, threshold=1))
    assert states(result)["raw"] is FlowState.COMPLETED
    assert begun.rows("big") == [(100, "seed"), (2, "b"), (3, "c")]
    if states(result)["names"] is FlowState.IDLE:
        assert begun.versions("names") == before


def test_a_view_is_computed_again_when_its_code_changes_and_only_then(world: EngineWorld) -> None:
    """The same query under another name of its function's variables is the same; another one is not."""

    def with_view(query: str) -> Callable[[], None]:
        def declare() -> None:
            @dp.table
            def raw() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source())

            @dp.materialized_view
            def view() -> DataFrame:
                return world.spark.sql(query)

        return declare

    world.run(with_view("SELECT max(id) AS top FROM raw"))
    assert states(world.run(with_view("SELECT  max(id)  AS top FROM raw")))["view"] is FlowState.IDLE
    assert states(world.run(with_view("SELECT min(id) AS top FROM raw")))["view"] is FlowState.COMPLETED
    assert world.rows("view") == [(1,)]


def test_a_view_has_the_columns_that_its_schema_declares(world: EngineWorld) -> None:
    """With their types, order and comments; NULL where the query has no such column, and an error where it may not."""

    def declare() -> None:
        schema = "v STRING NOT NULL COMMENT 'letter', id LONG, more INT"

        @dp.materialized_view(schema=schema)
        def kept() -> DataFrame:
            return world.spark.read.format("delta").load(world.source("letters")).where("v IS NOT NULL")

        @dp.materialized_view(schema=schema)
        @dp.expect_or_drop("known", "v IS NOT NULL")
        def dropped() -> DataFrame:
            return world.spark.read.format("delta").load(world.source("letters"))

        @dp.materialized_view(schema=schema)
        def broken() -> DataFrame:
            return world.spark.read.format("delta").load(world.source("letters"))

    kept = [("a", 1, None), ("b", 2, None)]
    world.feed([(1, "a"), (2, "b")], "id LONG, v STRING", "letters")
    world.run(declare)
    assert [world.rows(name) for name in ("kept", "dropped", "broken")] == [kept] * 3
    world.feed([(3, None), (4, "d")], "id LONG, v STRING", "letters")
    result = world.run(declare)
    errors = {flow.flow.table: str(flow.error) for flow in result.flows if flow.error is not None}
    assert list(errors) == ["broken"]
    assert "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: v." in errors["broken"]
    assert [world.rows(name) for name in ("kept", "dropped", "broken")] == [[*kept, ("d", 4, None)]] * 2 + [kept]
    fields = stored_schema(world.path("kept")).fields
    assert [(field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields] == [
        ("v", "string", "letter"), ("id", "bigint", None), ("more", "int", None)
    ]  # fmt: skip


def test_layout_columns_are_found_whatever_the_case_of_their_letters(world: EngineWorld) -> None:
    """At the creation of a table, when its definition changes, and after that."""

    def declare(comment: str) -> Callable[[], None]:
        def declared() -> None:
            def stream() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source("letters"))

            def batch() -> DataFrame:
                return world.spark.read.format("delta").load(world.source("letters"))

            dp.table(name="parted", partition_cols=["V"], comment=comment)(stream)
            dp.table(name="clustered", cluster_by=["V", "S.X"], comment=comment)(stream)
            dp.materialized_view(name="parted_view", partition_cols=["V"], comment=comment)(batch)
            dp.materialized_view(name="clustered_view", cluster_by=["V"], comment=comment)(batch)

        return declared

    names = ("parted", "clustered", "parted_view", "clustered_view")
    for number, comment in enumerate(("one", "two"), 1):
        world.feed([(number, "a", (number,))], "id LONG, v STRING, s STRUCT<x: INT>", "letters")
        result = world.run(declare(comment))
        assert {flow.flow.table: flow.error for flow in result.flows if flow.error is not None} == {}
        expected = [(each, "a", (each,)) for each in range(1, number + 1)]
        assert [world.rows(name) for name in names] == [expected] * 4


def test_a_streaming_table_grows_a_column_that_its_query_grew(world: EngineWorld) -> None:
    """Evolution by addition: old rows have null where the new column is."""

    def wider() -> None:
        @dp.table
        def raw() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source()).selectExpr("*", "upper(name) AS loud")

        chain_rest(world)

    def chain_rest(world: EngineWorld) -> None:
        @dp.materialized_view
        def loud() -> DataFrame:
            return world.spark.read.table("raw").select("id", "loud")

    def narrow() -> None:
        @dp.table
        def raw() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    world.run(narrow)
    world.feed([(4, "d")], "id long, name string")
    world.run(wider)
    assert world.rows("raw") == [(1, "a", None), (2, "b", None), (3, "c", None), (4, "d", "D")]
    assert world.rows("loud") == [(1, None), (2, None), (3, None), (4, "D")]


def test_a_reset_reads_everything_again_and_keeps_the_rows(begun: EngineWorld) -> None:
    """An append target then has the rows twice, because a reset keeps its rows."""
    result = begun.run(chain(begun), reset_checkpoints=["raw"])
    assert states(result)["raw"] is FlowState.COMPLETED
    assert len(begun.rows("raw")) == 6
    assert sorted(set(begun.rows("raw"))) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_full_refresh_gives_what_a_first_update_would_give_now(begun: EngineWorld) -> None:
    """Rows that the current code would not write are gone, and the once flow ran again."""
    begun.run(chain(begun, threshold=2), full_refresh=["big"])
    assert begun.rows("big") == [(100, "seed"), (3, "c")]
    begun.run(chain(begun, threshold=2))
    assert begun.rows("names") == [("c", 1), ("seed", 1)]


def test_a_full_refresh_that_fails_leaves_the_old_rows_and_goes_on_later(world: EngineWorld) -> None:
    """Readers see the old rows until the new ones are committed; finished work of the rebuild is not repeated."""

    def failing(*, broken: bool) -> Callable[[], None]:
        def declare() -> None:
            dp.create_streaming_table("t")

            @dp.append_flow(target="t")
            def good() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source())

            @dp.append_flow(target="t", once=True)
            def bad() -> DataFrame:
                column = "raise_error('no')" if broken else "'late'"
                return world.spark.range(1).selectExpr("id + 50 AS id", f"string({column}) AS name")

        return declare

    world.run(failing(broken=False))
    before = world.rows("t")
    world.feed([(7, "g")], "id long, name string")
    result = world.run(failing(broken=True), full_refresh=["t"])
    assert result.state is UpdateState.FAILED
    assert world.rows("t") == before
    result = world.run(failing(broken=False))
    assert result.state is UpdateState.COMPLETED
    assert world.rows("t") == [(1, "a"), (2, "b"), (3, "c"), (50, "late"), (7, "g")]
    assert world.run(failing(broken=False)).is_idle


def test_full_refresh_all_rebuilds_streams_and_what_streams_from_them(begun: EngineWorld) -> None:
    """Downstream streams start again too, so the replaced rows upstream do not fail them."""
    result = begun.run(chain(begun), full_refresh_all=True)
    assert result.state is UpdateState.COMPLETED
    assert begun.rows("big") == [(100, "seed"), (2, "b"), (3, "c")]
    assert begun.run(chain(begun)).is_idle


def test_what_fails_takes_its_dependents_along_and_nothing_else(world: EngineWorld) -> None:
    """The flow is FAILED, its dependents SKIPPED, the rest COMPLETED; the update is FAILED."""

    def declare() -> None:
        @dp.table
        def broken() -> DataFrame:
            return (
                world.spark.readStream.format("delta").load(world.source()).selectExpr("string(raise_error('no')) AS x")
            )

        @dp.materialized_view
        def below() -> DataFrame:
            return world.spark.read.table("broken")

        @dp.table
        def beside() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    result = world.run(declare)
    assert result.state is UpdateState.FAILED
    assert states(result) == {
        "broken": FlowState.FAILED, "below": FlowState.SKIPPED, "beside": FlowState.COMPLETED
    }  # fmt: skip
    failed = next(flow for flow in result.flows if flow.flow.table == "broken")
    assert failed.error is not None
    assert (failed.error.condition, failed.error.exit_code) == ("FLOW_FAILED", 1)
    assert str(failed.error.fields["cause"]).startswith("[USER_RAISED_EXCEPTION] no")
    assert "\tat " not in str(failed.error)


def test_a_table_is_read_while_another_query_is_wrong(world: EngineWorld) -> None:
    """Reading a declared table analyses no query; a name that nothing declares is still an error."""

    def declare(wrong: str) -> Callable[[], None]:
        def module() -> None:
            @dp.materialized_view
            def sound() -> DataFrame:
                return world.spark.range(2)

            @dp.materialized_view
            def doubtful() -> DataFrame:
                return world.spark.range(2).select(wrong)

        return module

    assert world.run(declare("id")).state is UpdateState.COMPLETED
    broken = world.pipeline(declare("nothing"))
    assert sorted(row.id for row in broken.table("sound").collect()) == [0, 1]
    with pytest.raises(GraphErrors):
        broken.validate()
    with pytest.raises(UserError, match="DATASET_NOT_FOUND"):
        world.pipeline(declare("id")).table("soundly")


def test_only_the_selection_is_updated(begun: EngineWorld) -> None:
    """`refresh` names the datasets to update; the others are EXCLUDED."""
    begun.feed([(5, "e")], "id long, name string")
    result = begun.run(chain(begun), refresh=["raw"])
    assert begun.rows("raw")[-1] == (5, "e")
    assert (5, "e") not in begun.rows("big")
    assert "big" not in states(result)


def test_a_sink_and_a_batch_function_get_each_row_once(world: EngineWorld) -> None:
    """Append flows write to external systems; the next update writes only new rows."""
    seen: list[tuple[int, list[Any]]] = []

    def declare() -> None:
        dp.create_sink("out", "parquet", {"path": str(world.root / "out")})

        @dp.append_flow(target="out")
        def to_files() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.foreach_batch_sink
        def collector(frame: DataFrame, number: int) -> None:
            seen.append((number, sorted(row.id for row in frame.collect())))

        @dp.append_flow(target="collector")
        def to_function() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    world.run(declare)
    world.feed([(4, "d")], "id long, name string")
    world.run(declare)
    written = world.spark.read.parquet(str(world.root / "out"))
    assert sorted(row.id for row in written.collect()) == [1, 2, 3, 4]
    assert seen == [(0, [1, 2, 3]), (1, [4])]


def test_a_fault_that_can_heal_is_tried_again_and_one_that_can_t_is_not(world: EngineWorld) -> None:
    """A refused connection is retried twice; a wrong value fails immediately."""
    calls = {"heals": 0, "stays": 0}

    def declare() -> None:
        @dp.foreach_batch_sink
        def heals(_frame: DataFrame, _number: int) -> None:
            calls["heals"] += 1
            if calls["heals"] < 3:
                raise ConnectionRefusedError

        @dp.append_flow(target="heals")
        def one() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.foreach_batch_sink
        def stays(_frame: DataFrame, _number: int) -> None:
            calls["stays"] += 1
            raise ValueError

        @dp.append_flow(target="stays")
        def two() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    result = world.pipeline(declare, development=False).run()
    assert states(result) == {"one": FlowState.COMPLETED, "two": FlowState.FAILED}
    assert calls == {"heals": 3, "stays": 1}
