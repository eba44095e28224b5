"""Batches of append flows: each is one commit, and the table takes it once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta import DeltaTable
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.cdc.delta.transaction import Transaction
from framework.cdc.model.metrics import CdcMetrics
from framework.engine.delta.appends import append_batch
from framework.engine.delta.deletion_vectors import LOCATION
from framework.engine.delta.table_version import TableVersion
from framework.engine.files.storage import open_storage
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm_all, disarm
from framework.foundation.table_address import TableAddress
from framework.run.tables import appended_files
from framework.run.tables.appended_files import delete_leftovers
from framework.run.update.fault_classification import can_heal
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import stop
from tests.support.plain_tables import append_rows, create_empty_table, delete_old_files, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = "id INT, name STRING, n INT"
MAPPED = {"delta.columnMapping.mode": "name"}
POINTS = {"appends.after_commit": "t", "quarantine.after_target": "checked"}
AFTER_COMMIT = ("appends.after_commit", "cdc.after_merge", "quarantine.after_target")


def appending(
    world: EngineWorld,
    properties: Mapping[str, str] | None = None,
    columns: Sequence[str] = ("*",),
    *,
    partitions: Sequence[str] = (),
    table: str = "t",
    least: int | None = None,
) -> Callable[[], None]:
    """A table with a flow that reads one commit of the source in each batch; it quarantines ids below the least one."""

    def declare() -> None:
        kept = {} if least is None else {"sluice.quarantine": "true"}
        dp.create_streaming_table(
            table, table_properties={**(properties or {}), **kept}, partition_cols=[*partitions] or None,
            expect_all_or_drop={} if least is None else {"least": f"id >= {least}"},
        )  # fmt: skip

        @dp.append_flow(target=table, name=f"into_{table}")
        def f() -> DataFrame:
            rows = world.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(world.source())
            return rows.selectExpr(*columns)

    return declare


def test_a_stateful_query_goes_on_after_a_kill_between_a_batch_and_its_checkpoint(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The batch is in its table and is skipped, but its state is stored: Spark refuses a batch without."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)

    def distinct() -> DataFrame:
        return spark.readStream.format("delta").load(world.source()).dropDuplicates(["id"])

    def declare() -> None:
        dp.create_streaming_table("appended")
        dp.append_flow(target="appended", name="append")(distinct)
        dp.create_streaming_table("applied")
        dp.create_auto_cdc_flow(target="applied", source="events", keys=["id"], sequence_by="n")
        dp.temporary_view(name="events")(distinct)
        kept = {"sluice.quarantine": "true"}
        dp.create_streaming_table("checked", table_properties=kept, expect_all_or_drop={"named": "name IS NOT NULL"})
        dp.append_flow(target="checked", name="check")(distinct)

    world.feed([(1, "a", 1), (1, "a", 1), (2, None, 1), (3, "c", 1)], DDL)
    arm_all({(point, 1): stop for point in AFTER_COMMIT})
    assert world.run(declare).state is UpdateState.FAILED
    passed = disarm()
    assert [passed[point] for point in AFTER_COMMIT] == [1, 1, 1]
    assert world.run(declare).state is UpdateState.COMPLETED
    world.feed([(3, "again", 2), (4, "d", 1)], DDL)
    assert world.run(declare).state is UpdateState.COMPLETED
    rows = [(1, "a", 1), (2, None, 1), (3, "c", 1), (4, "d", 1)]
    assert (world.rows("appended"), world.rows("applied")) == (rows, rows)
    assert world.rows("checked") == [(1, "a", 1), (3, "c", 1), (4, "d", 1)]


def commits(world: EngineWorld, table: str) -> list[dict[str, Any]]:
    """The information of each commit of a table."""
    log = sorted(Path(world.path(table), "_delta_log").glob("[0-9]*.json"))
    return [json.loads(line)["commitInfo"] for file in log for line in file.open() if '"commitInfo"' in line]


def test_a_batch_depends_on_the_table_that_it_was_compared_with(interpreting: SparkSession, tmp_path: Path) -> None:
    """A query that reads its own table, or streams from it, conflicts with rows that others append meanwhile.

    The path of the stream is spelled in another way than that of the table. Any other append is blind.
    """
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)

    def read() -> DataFrame:
        return spark.readStream.format("delta").load(world.source())

    def declare() -> None:
        dp.create_streaming_table("plain")
        dp.append_flow(target="plain", name="all_rows")(read)
        dp.create_streaming_table("new")
        dp.create_streaming_table("own")
        exists = Path(world.path("new")).exists()

        @dp.append_flow(target="new", name="new_rows")
        def new_rows() -> DataFrame:
            if not exists:
                return read()
            old = spark.read.format("delta").load(world.path("new")).select("id")
            return read().join(old, "id", "left_anti")

        @dp.append_flow(target="own", name="own_rows" if exists else "first_rows")
        def own_rows() -> DataFrame:
            if not exists:
                return read()
            rows = spark.readStream.format("delta").load(f"file:{world.path('own')}/")
            return rows.where("id = 1").withColumn("id", F.lit(2))

    for row in (1, "a", 1), (1, "b", 2):
        world.feed([row], DDL)
        assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("new") == [(1, "a", 1)]
    assert world.rows("own") == [(1, "a", 1), (2, "a", 1)]
    blind = {name: [each["isBlindAppend"] for each in commits(world, name)[1:]] for name in ("plain", "new", "own")}
    assert blind == {"plain": [True, True], "new": [True, False], "own": [True, False]}


def test_columns_may_change_while_a_stream_runs(interpreting: SparkSession, tmp_path: Path) -> None:
    """The rows of the next batch fit into the new columns, and it is a batch of the stream in counts and history."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)
    properties = {"delta.enableTypeWidening": "true", **MAPPED}
    table = f"delta.`{world.path('t')}`"

    def change() -> None:
        spark.sql(f"ALTER TABLE {table} ADD COLUMN more STRING FIRST")
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
        spark.sql(f"ALTER TABLE {table} DROP COLUMN n")

    for row in (1, "a", 1), (2, "b", 2), (3, "c", 3):
        world.feed([row], DDL)
    arm_all({("appends.after_commit", 1): change})
    result = world.run(appending(world, properties, partitions=["name"]))
    assert disarm()["appends.after_commit"] == 3
    assert [(flow.state, flow.rows_written) for flow in result.flows] == [(FlowState.COMPLETED, 3)]
    found = spark.read.format("delta").load(world.path("t"))
    assert found.dtypes == [("more", "string"), ("id", "bigint"), ("name", "string"), ("n", "int")]
    assert sorted(map(tuple, found.collect())) == [(None, 1, "a", None), (None, 2, "b", 2), (None, 3, "c", 3)]
    batches = [each for each in commits(world, "t") if each["operation"] == "STREAMING UPDATE"]
    assert [each["operationParameters"]["epochId"] for each in batches] == ["0", "1", "2"]


def test_a_nested_column_that_others_drop_while_a_stream_runs_is_added_again(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """No value of the next batch is lost, as with Delta's sink; nor of the rows that a replay writes."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)

    def drop(table: str) -> None:
        spark.sql(f"ALTER TABLE delta.`{world.path(table)}` DROP COLUMN s.n")

    def declare(least: int = 0) -> None:
        appending(world, MAPPED, columns)()
        appending(world, MAPPED, columns, table="checked", least=least)()

    columns = ["id", "struct(name, n) AS s"]
    for rows in [(1, "a", 1)], [(2, "b", 2), (-1, "c", 3)]:
        world.feed(rows, DDL)
    arm_all({(point, 1): partial(drop, table) for point, table in POINTS.items()})
    assert world.run(declare).state is UpdateState.COMPLETED
    passed = disarm()
    assert [passed[point] for point in POINTS] == [2, 2]
    assert world.rows("t") == [(-1, ("c", 3)), (1, ("a", None)), (2, ("b", 2))]
    assert world.rows("checked") == [(1, ("a", None)), (2, ("b", 2))]
    drop("checked")
    assert world.pipeline(partial(declare, -1)).quarantine.replay("into_checked").passed == 1
    assert world.rows("checked") == [(-1, ("c", 3)), (1, ("a", None)), (2, ("b", None))]


def test_a_column_that_others_made_of_another_type_takes_no_value_that_differs(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Spark can cast 2 to true, and Delta's sink refuses it."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)

    def change(table: str) -> None:
        spark.sql(f"ALTER TABLE delta.`{world.path(table)}` DROP COLUMN n")
        spark.sql(f"ALTER TABLE delta.`{world.path(table)}` ADD COLUMN n BOOLEAN")

    def declare() -> None:
        appending(world, MAPPED)()
        appending(world, MAPPED, table="checked", least=0)()

    for row in (1, "a", 1), (2, "b", 2):
        world.feed([row], DDL)
    arm_all({(point, 1): partial(change, table) for point, table in POINTS.items()})
    flows = world.run(declare).flows
    passed = disarm()
    assert [passed[point] for point in POINTS] == [1, 1]
    assert ["DELTA_MERGE_INCOMPATIBLE_DATATYPE" in str(flow.error) for flow in flows] == [True, True]
    assert [world.rows(table) for table in POINTS.values()] == [[(1, "a", None)]] * 2


def test_a_table_that_others_delete_while_a_stream_runs_is_not_created_without_its_rows(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Delta's sink would create it, with the rows of the next batches only."""
    world = EngineWorld(interpreting, tmp_path)
    rows = [(1, "a", 1), (2, "b", 2)]
    for row in rows:
        world.feed([row], DDL)
    arm_all({("appends.after_commit", 1): lambda: shutil.rmtree(world.path("t"))})
    (flow,) = world.run(appending(world)).flows
    assert disarm()["appends.after_commit"] == 1
    assert flow.error is not None
    assert "DELTA_MISSING_DELTA_TABLE" in str(flow.error)
    assert world.run(appending(world)).state is UpdateState.COMPLETED
    assert world.rows("t") == rows


def test_a_once_flow_makes_no_table_in_place_of_one_that_others_delete(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Delta's writer would make one without owner and without the rows of other flows."""
    world = EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        dp.create_streaming_table("t")

        @dp.append_flow(target="t", name="backfill", once=True)
        def backfill() -> DataFrame:
            return world.spark.sql("SELECT 1 AS id")

    arm_all({("tables.after_create", 1): lambda: shutil.rmtree(world.path("t"))})
    (flow,) = world.run(declare).flows
    assert disarm()["tables.after_create"] == 1
    assert "DELTA_MISSING_DELTA_TABLE" in str(flow.error)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("t") == [(1,)]


@pytest.mark.parametrize(("point", "least"), [("appends.after_commit", None), ("quarantine.after_rows", 2)])
def test_a_stream_writes_nothing_to_a_table_that_others_put_in_the_place_of_its_own(
    interpreting: SparkSession, tmp_path: Path, point: str, least: int | None
) -> None:
    """A user's table stays as it is; when it is moved away, the next update makes the flow's table with all rows."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)
    declare = appending(world, least=least)
    rows = [(1, "a", 1), (2, "b", 2)]
    world.feed(rows, DDL)
    world.feed([(3, "c", 3)], DDL)

    def replace() -> None:
        columns = spark.read.format("delta").load(world.path("t")).schema
        DeltaTable.replace(spark).location(world.path("t")).addColumns(columns).execute()

    arm_all({(point, 1): replace})
    (flow,) = world.run(declare).flows
    assert disarm()[point] == 1
    assert flow.error is not None
    assert flow.error.condition == "TABLE_REPLACED"
    assert world.rows("t") == []
    (flow,) = world.run(declare).flows
    assert flow.error is not None
    assert flow.error.condition == "TABLE_NOT_OWNED"
    Path(world.path("t")).rename(tmp_path / "moved")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("t") == [row for row in [*rows, (3, "c", 3)] if least is None or row[0] >= least]


@pytest.mark.parametrize("files", ["in the checksum", "in the log only"])
def test_only_files_that_no_version_has_are_leftovers(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, files: str
) -> None:
    """A file that was removed from the table is still read at the version before; the last commits have it, mostly."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)
    for row in (1, "a", 1), (2, "b", 2):
        world.feed([row], DDL)
    known = sorted(Path(world.source()).glob("*.parquet"))
    spark.sql(f"DELETE FROM delta.`{world.source()}` WHERE id = 1")
    storage, table = open_storage(str(tmp_path)), TableAddress(path=world.source())
    assert all(path.name.startswith("part-") for path in known)
    if files == "in the log only":
        swap.setattr(TableVersion, "listed_files", lambda _: None)
        swap.setattr(appended_files, "_LAST_COMMITS", 0)
    else:
        for path in set(Path(world.source()).glob("*.parquet")) - set(known):
            path.unlink()  # DELETE writes a file without rows and does not commit it
        with swap.context() as during:
            during.delattr(TableVersion, "file_paths")  # the query over the log
            assert delete_leftovers(spark, storage, table, "part-", is_safe=lambda: True)
    shutil.copy(known[0], known[0].with_name("part-unknown.parquet"))
    assert delete_leftovers(spark, storage, table, "part-", is_safe=lambda: True)
    assert known == sorted(Path(world.source()).glob("*.parquet"))
    before = spark.read.format("delta").option("versionAsOf", 1).load(world.source())
    assert [(1, "a", 1), (2, "b", 2)] == sorted(map(tuple, before.collect()))


def test_files_that_are_deleted_before_their_commit_are_not_committed(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """`VACUUM` with a short retention deletes new files of rows and of deletion vectors; the table stays as it was."""
    spark, path = interpreting, str(tmp_path / "t")
    table, more = TableAddress(path=path), spark.createDataFrame([(3, "c", 3)], DDL)
    create_empty_table(spark, path, more.schema, {"delta.enableDeletionVectors": "true"})
    known = [(1, "a", 1), (2, "b", 2)]
    append_rows(spark, path, known, DDL)

    def removal() -> Transaction:
        transaction = Transaction.begin(spark, table, more.schema)
        assert transaction is not None
        transaction.remove(transaction.rows({}).where("id = 1").select(LOCATION))
        return transaction

    version, removing = TableVersion(spark, table), removal()
    added = version.transaction.writeFiles(more._jdf)
    delete_old_files(path)
    for commit in (partial(append_batch, version, added, "query", 0, {}), partial(removing.commit, None, CdcMetrics())):
        with pytest.raises(OperationError, match=r"FILES_GONE_BEFORE_COMMIT.*(parquet|bin)") as raised:
            commit()
        assert can_heal(raised.value)
    assert known == sorted(map(tuple, table_rows(spark, path)))
    removal().commit(None, CdcMetrics())
    assert known[1:] == [*map(tuple, table_rows(spark, path))]
