"""AUTO CDC of a table's change feed ends in the table, whatever happens to the table in between."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.cdc_histories import random_from
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows
from tests.support.seeds import fresh_seed, kept_seeds, repeatable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `make soak` sets thousands of worlds for a table; here a world is a pipeline.
SEEDS = max(1, int(os.environ.get("SLUICE_WORLDS", "150")) // 150)
KIND = "feed"
QUIET_POINTS = 3
DDL = "id INT, amount INT, operation STRING, at INT"
FEED = ["_change_type", "_commit_version", "_commit_timestamp"]


class Shop:
    """A table by AUTO CDC with a change feed, and the pipeline of somebody else that follows it."""

    def __init__(self, spark: SparkSession, root: Path, random: Random) -> None:
        self.spark, self.random, self.at = spark, random, 0
        self.shop, self.other = EngineWorld(spark, root / "shop"), EngineWorld(spark, root / "other")
        self.vectors = str(random.random() < 0.5).lower()
        self.files = str(random.choice([1, 3, 1000]))
        self.has_preimages = random.random() < 0.5
        self.updates: list[str] = []
        self.change()

    def declare(self) -> None:
        """The table."""
        dp.temporary_view(name="events")(lambda: self.spark.readStream.format("delta").load(self.shop.source()))
        wanted = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": self.vectors}
        dp.create_streaming_table("customers", table_properties=wanted)
        dp.create_auto_cdc_flow(
            target="customers", source="events", keys=["id"], sequence_by="at",
            apply_as_deletes="operation = 'delete'", except_column_list=["operation", "at"],
        )  # fmt: skip

    def declare_readers(self) -> None:
        """The readers, as Databricks documents them, or without its filter."""
        reader = self.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
        feed = reader.option("maxFilesPerTrigger", self.files)
        wanted = "true" if self.has_preimages else "_change_type <> 'update_preimage'"
        dp.temporary_view(name="changes")(lambda: feed.load(self.shop.path("customers")).drop("__sluice").where(wanted))
        for target, scd_type in (("latest", 1), ("history", 2)):
            dp.create_streaming_table(target)
            dp.create_auto_cdc_flow(
                target=target, source="changes", keys=["id"], sequence_by="_commit_version",
                apply_as_deletes="_change_type = 'delete'", except_column_list=FEED, stored_as_scd_type=scd_type,
            )  # fmt: skip

    def update(self, **request: Any) -> None:
        """An update of the table."""
        result = self.shop.run(self.declare, **request)
        assert result.state is UpdateState.COMPLETED, str(result)
        self.updates.append(result.update_id)

    def change(self) -> None:
        """Inserts, updates and deletes of some keys."""
        keys = self.random.sample(range(8), 4)
        self.at += 1
        kinds = self.random.choices(["upsert", "upsert", "delete"], k=len(keys))
        rows = [(key, self.random.randrange(3), kind, self.at) for key, kind in zip(keys, kinds, strict=True)]
        self.shop.feed(rows, DDL)
        self.update()

    def refresh(self) -> None:
        """A full refresh."""
        self.update(full_refresh=["customers"])

    def rewind(self) -> None:
        """A rewind to an earlier update, and an update that goes on from there."""
        rewinds = self.shop.pipeline(self.declare).rewinds
        rewinds.rewind(rewinds.plan(self.random.choice(self.updates[:-1] or self.updates), ["customers"]))

    def restore(self) -> None:
        """A RESTORE by hand."""
        version = self.random.randrange(1, self.shop.versions("customers"))
        self.spark.sql(f"RESTORE TABLE delta.`{self.shop.path('customers')}` TO VERSION AS OF {version}")

    def reset(self) -> None:
        """A reset of the flow into the table, which reads its source again."""
        self.update(reset_checkpoint=["customers"])

    def move_key(self) -> None:
        """An UPDATE by hand of a key, for readers that see the row from before it."""
        if self.has_preimages:
            self.at += 1
            table = DeltaTable.forPath(self.spark, self.shop.path("customers"))
            table.update("id = 2", {"id": f"{100 + self.at}"})

    def overwrite(self) -> None:
        """An INSERT OVERWRITE by hand, in several files."""
        rows = self.spark.read.format("delta").load(self.shop.path("customers")).where("amount < 2").localCheckpoint()
        rows.repartition(3).write.format("delta").mode("overwrite").save(self.shop.path("customers"))

    def merge(self) -> None:
        """A MERGE by hand that deletes and inserts one key."""
        table = DeltaTable.forPath(self.spark, self.shop.path("customers"))
        both = self.spark.createDataFrame([(1, 7, True), (1, 8, False)], "id INT, amount INT, gone BOOLEAN")
        both = both if self.has(1) else both.where("NOT gone")
        merge = table.alias("t").merge(both.alias("s"), "t.id = s.id AND s.gone").whenMatchedDelete()
        merge.whenNotMatchedInsert(values={"id": "s.id", "amount": "s.amount"}).execute()

    def has(self, key: int) -> bool:
        """Whether the table has a key."""
        return key in {row[0] for row in self.shop.rows("customers")}

    def check(self) -> None:
        """Compare the readers with the table, after an update of theirs."""
        result = self.other.run(self.declare_readers)
        assert result.state is UpdateState.COMPLETED, str(result)
        rows = self.shop.rows("customers")
        assert rows == self.other.rows("latest")
        found = table_rows(self.spark, self.other.path("history"), without="__sluice")
        assert rows == sorted(((row.id, row.amount) for row in found if row["__END_AT"] is None), key=repr)
        ordered = sorted(found, key=lambda row: (row.id, row["__START_AT"]))
        for row in ordered:
            assert row["__END_AT"] is None or row["__START_AT"] < row["__END_AT"]
        for before, after in pairwise(ordered):
            assert before.id != after.id or before["__END_AT"] <= after["__START_AT"]


STEPS = (
    Shop.change, Shop.change, Shop.refresh, Shop.reset, Shop.rewind, Shop.restore, Shop.overwrite, Shop.merge,
    Shop.move_key,
)  # fmt: skip

RUNS: list[tuple[str, int | None]] = [*kept_seeds({KIND}), *((KIND, None) for _ in range(SEEDS))]


@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_readers_of_a_feed_end_in_its_table(spark: SparkSession, tmp_path: Path, kind: str, seed: int | None) -> None:
    """After updates, full refreshes, rewinds, RESTORE, INSERT OVERWRITE and MERGE, in any order, SCD types 1 and 2."""
    seed = fresh_seed() if seed is None else seed
    random = random_from(seed)
    with repeatable(__file__, kind, seed, ""):
        shop = Shop(spark, tmp_path, random)
        shop.check()
        steps = [Shop.refresh, *random.sample(STEPS, 4)]  # the refresh comes at any point
        random.shuffle(steps)
        for begin in range(0, len(steps), len(steps) // (QUIET_POINTS - 1)):
            for step in steps[begin : begin + len(steps) // (QUIET_POINTS - 1)]:
                step(shop)
            shop.check()
