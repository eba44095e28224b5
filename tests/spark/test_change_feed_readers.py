"""AUTO CDC of change data feeds ends in the rows of the table, also after commits that delete and insert a key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.recovery.doctor.diagnosis import Way
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import create_empty_table, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = "id INT, mail STRING, amount INT"
FEED = ["_change_type", "_commit_version", "_commit_timestamp"]
ADVICE: dict[str, Any] = {
    "sequence_by": "_commit_version", "apply_as_deletes": "_change_type = 'delete'", "except_column_list": FEED,
}  # fmt: skip


def feed(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """The stream of a table's change data feed from its first commit."""
    reader = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
    return reader.options(**options).load(path)


def current(world: EngineWorld, table: str) -> list[tuple[Any, ...]]:
    """The rows of an SCD type 2 table that are valid now, without their bounds; each row has a width."""
    rows = table_rows(world.spark, world.path(table), without="__sluice")
    assert [row for row in rows if row["__END_AT"] is not None and row["__START_AT"] >= row["__END_AT"]] == []
    valid = (row.asDict() for row in rows if row["__END_AT"] is None)
    found = ({name: value for name, value in row.items() if not name.startswith("__")} for row in valid)
    return sorted((tuple(row.values()) for row in found), key=repr)


class Shop:
    """A table with a change data feed that others write."""

    def __init__(self, spark: SparkSession, path: str, *, vectors: bool) -> None:
        self.spark, self.path = spark, path
        wanted = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": str(vectors).lower()}
        create_empty_table(spark, path, spark.createDataFrame([], DDL).schema, wanted)
        self.add([(number, f"m{number}", number) for number in range(1, 7)], "append")
        self.restored = 1

    def add(self, rows: list[tuple[Any, ...]], mode: str, files: int = 1) -> None:
        """Append rows, or overwrite all rows, in one commit."""
        self.spark.createDataFrame(rows, DDL).repartition(files).write.format("delta").mode(mode).save(self.path)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the table, as Spark reads them."""
        return sorted(map(tuple, self.spark.read.format("delta").load(self.path).collect()), key=repr)

    def change(self) -> None:
        """Update a value, update a key, delete a row; delete and insert one key in a MERGE."""
        table = DeltaTable.forPath(self.spark, self.path)
        table.update("id = 2", {"amount": "amount + 10", "mail": "'new'"})
        table.delete("id = 3")
        both = self.spark.createDataFrame([(1, "m1", 1, True), (1, "again", 111, False)], f"{DDL}, gone BOOLEAN")
        merge = table.alias("t").merge(both.alias("s"), "t.id = s.id AND s.gone").whenMatchedDelete()
        merge.whenNotMatchedInsert(values={name: f"s.{name}" for name in ("id", "mail", "amount")}).execute()

    def overwrite(self) -> None:
        """Overwrite all rows with rows of which some are the same, in several files."""
        self.add([row for row in self.rows() if row[0] != 5] + [(8, "m8", 8)], "overwrite", files=3)

    def restore(self) -> None:
        """Restore the table as it was after its first rows."""
        self.spark.sql(f"RESTORE TABLE delta.`{self.path}` TO VERSION AS OF {self.restored}")


def declare_readers(spark: SparkSession, plain: str, vectors: str) -> None:
    """Readers as users write them, in Python and SQL, of a table without and one with deletion vectors."""
    dp.temporary_view(name="changes")(lambda: feed(spark, vectors).where("_change_type <> 'update_preimage'"))
    dp.temporary_view(name="renamed")(
        lambda: spark.sql(
            "SELECT id, mail, amount, _change_type AS operation, _commit_version AS version FROM STREAM(changes)"
        )
    )
    dp.temporary_view(name="computed")(
        lambda: (
            feed(spark, plain, maxFilesPerTrigger="2")
            .withColumn("at", F.struct("_commit_version", F.col("_commit_timestamp").alias("time")))
            .withColumn("gone", F.col("_change_type") == "delete")
            .where("amount < 100")
            .drop(*FEED[1:])
        )
    )
    dp.temporary_view(name="mails")(lambda: feed(spark, plain).drop("id"))
    wanted = {
        "history": {"source": "changes", **ADVICE, "stored_as_scd_type": 2},
        "renames": {
            "source": "renamed", "sequence_by": "version", "apply_as_deletes": "operation = 'delete'",
            "except_column_list": ["operation", "version"],
        },
        "smalls": {
            "source": "computed", "sequence_by": "at", "stored_as_scd_type": 2,
            "apply_as_deletes": "gone OR _change_type = 'update_preimage'",
            "except_column_list": ["at", "gone", "_change_type"],
        },
        "by_mail": {"source": "mails", **ADVICE, "keys": ["mail"], "sequence_by": "_commit_timestamp"},
    }  # fmt: skip
    for target, arguments in wanted.items():
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(target=target, **{"keys": ["id"], **arguments})


def test_readers_end_in_the_rows_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """After MERGE, INSERT OVERWRITE and RESTORE by others, whatever the readers call the columns of the feed.

    Without deletion vectors, a limit of files splits a commit: its inserts and deletes come in different batches.
    """
    world = EngineWorld(spark, tmp_path)
    shops = [Shop(spark, world.source(f"vectors {vectors}"), vectors=vectors) for vectors in (False, True)]

    def declare() -> None:
        declare_readers(spark, *(shop.path for shop in shops))

    assert world.pipeline(declare).validate().warnings == ()
    for steps in ((), (Shop.change, Shop.overwrite), (Shop.restore,)):
        for shop in shops:
            for step in steps:
                step(shop)
        assert world.run(declare).state is UpdateState.COMPLETED
        plain, rows = (shop.rows() for shop in shops)
        assert plain == rows == world.rows("renames") == current(world, "history")
        assert [row for row in rows if row[2] < 100] == current(world, "smalls")
        assert sorted(row[1:] for row in rows) == world.rows("by_mail")
    # Rows that are overwritten with the same values go on.
    ends = [row for row in world.rows("history") if row[0] in {3, 4}]
    assert ends == [(3, "m3", 3, 1, 3), (3, "m3", 3, 6, None), (4, "m4", 4, 1, None)]


def test_the_feed_of_a_view_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Its readers end in its rows when it is computed again, also with another comment and another property."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a"), (2, "b")], "id INT, name STRING")
    wanted: dict[str, Any] = {"table_properties": {"delta.enableChangeDataFeed": "true"}}

    def declare() -> None:
        dp.materialized_view(name="totals", **wanted)(
            lambda: spark.read.format("delta").load(world.source()).where("name <> 'b' OR id > 2")
        )
        dp.temporary_view(name="changes")(
            lambda: spark.readStream.option("readChangeFeed", "true").option("startingVersion", "0").table("totals")
        )
        for target, scd_type in (("latest", 1), ("history", 2)):
            dp.create_streaming_table(target)
            dp.create_auto_cdc_flow(target=target, source="changes", keys=["id"], stored_as_scd_type=scd_type, **ADVICE)

    properties = {"delta.enableChangeDataFeed": "true", "p": "q"}
    changes: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((3, "c"), {}),
        ((4, "d"), {"comment": "x", "table_properties": properties}),
    ]
    assert world.run(declare).state is UpdateState.COMPLETED
    for row, changed in changes:
        wanted.update(changed)
        world.feed([row], "id INT, name STRING")
        result = world.run(declare)
        assert result.state is UpdateState.COMPLETED, str(result)
        assert world.rows("totals") == world.rows("latest") == current(world, "history")
    assert world.rows("latest") == [(1, "a"), (3, "c"), (4, "d")]
    assert world.rows("history")[0] == (1, "a", 0, None)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{world.path('totals')}`").first()
    assert detail is not None
    assert (detail["description"], detail["properties"].get("p")) == ("x", "q")


def test_another_sequence_is_foretold(spark: SparkSession, tmp_path: Path) -> None:
    """A flow that applies deletes of a feed in the order of a column is named, with its place, by `validate`."""
    world = EngineWorld(spark, tmp_path)
    shop = Shop(spark, world.source(), vectors=True)

    def declare() -> None:
        dp.temporary_view(name="changes")(lambda: feed(spark, shop.path))
        sequences = {"wrong": "amount", "nested": "struct(amount, struct(_commit_version))", "right": "_commit_version"}
        for target, sequence in sequences.items():
            dp.create_streaming_table(target)
            dp.create_auto_cdc_flow(target=target, source="changes", keys=["id"], **{**ADVICE, "sequence_by": sequence})

    (warning,) = world.pipeline(declare).validate().warnings
    assert (warning.condition, warning.fields["sequence"], warning.location is not None) == (
        "AUTOCDC_FEED_SEQUENCE", "amount", True,
    )  # fmt: skip


def test_a_stream_of_a_materialized_view_is_foretold(spark: SparkSession, tmp_path: Path) -> None:
    """A source of AUTO CDC and a stream, also through a temporary view, but not a batch, a feed or a snapshot."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a")], "id INT, name STRING")

    def declare() -> None:
        dp.table(name="rows")(lambda: spark.read.format("delta").load(world.source()))
        dp.table(name="stream")(lambda: spark.readStream.table("through"))
        dp.temporary_view(name="through")(lambda: spark.readStream.table("rows"))
        dp.table(name="batch")(lambda: spark.read.table("rows"))
        dp.table(name="changes")(lambda: spark.readStream.option("readChangeFeed", "true").table("rows"))
        for target in ("events", "snapshots"):
            dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(target="events", source="rows", keys=["id"], sequence_by="name")
        dp.create_auto_cdc_from_snapshot_flow(target="snapshots", source="rows", keys=["id"])

    pipeline = world.pipeline(declare)
    warnings = {(str(each.fields["flow"]), each.condition, str(each)) for each in pipeline.validate().warnings}
    told = "STREAM_OF_MATERIALIZED_VIEW"
    assert {each[:2] for each in warnings} == {("main.s.stream", told), ("main.s.events", told)}
    assert all("`dp.create_auto_cdc_from_snapshot_flow`" in text and "STREAM" in text for _, _, text in warnings)
    assert all(str(Path(__file__)) in text for _, _, text in warnings)


def test_a_view_that_loses_a_column_names_the_version_where_its_reader_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No advice fails: no full refresh while the code begins before that version, and the named start loses no row."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a"), (2, "b")], "id INT, name STRING")
    columns = ["id", "name"]
    options = {"readChangeFeed": "true", "startingVersion": "0"}

    def declare() -> None:
        @dp.materialized_view(table_properties={"delta.enableChangeDataFeed": "true"})
        def totals() -> DataFrame:
            return spark.read.format("delta").load(world.source()).select(*columns)

        @dp.table
        def kept() -> DataFrame:
            return spark.readStream.options(**options).table("totals").select("id", "_change_type", "_commit_version")

    def fails(**request: list[str]) -> list[tuple[Way, str | None]]:
        """The ways out of an update that fails with the condition."""
        (error,) = (flow.error for flow in world.run(declare, **request).flows if flow.error is not None)
        assert error.condition == "DELTA_SOURCE_COLUMNS_DROPPED"
        assert ("`sluice run --reset-checkpoint main.s.kept --from startingVersion=1`" in str(error)) == (not request)
        assert "`startingVersion=1` or later, then start over: `sluice run --full-refresh main.s.kept`" in str(error)
        (finding,) = world.pipeline(declare).doctor.examine().findings
        assert finding.diagnosis.name == "DELTA_SOURCE_COLUMNS_DROPPED"
        return [(each.way, each.command) for each in finding.ways]

    assert world.run(declare).state is UpdateState.COMPLETED
    columns.remove("name")
    reset = "sluice run --reset-checkpoint main.s.kept --from startingVersion=1"
    assert fails() == [(Way.RESET_AT_CHANGE, reset), (Way.FOLLOW, None)]
    assert world.run(declare, reset_checkpoints={"kept": "startingVersion=1"}).state is UpdateState.COMPLETED
    before = [(1, "insert", 0), (2, "insert", 0)]
    after = [(1, "delete", 1), (1, "insert", 1), (2, "delete", 1), (2, "insert", 1)]
    assert world.rows("kept") == sorted([*before, *after])
    assert fails(full_refresh=["kept"]) == [(Way.FOLLOW, None)]
    options["startingVersion"] = "1"
    assert world.run(declare, full_refresh=["kept"]).state is UpdateState.COMPLETED
    assert world.rows("kept") == after
