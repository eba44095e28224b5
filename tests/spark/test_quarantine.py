"""Quarantine: rows that a flow can't write are kept whole, once, and go to their table after a fix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.names import QualifiedName
from framework.run.quarantine.open_events import OpenEvents
from framework.run.quarantine.table import FILE, REASONS, QuarantinedBatch, QuarantineTable, by_columns, is_of
from framework.run.quarantine.values import from_variant, to_variant
from framework.run.update.results import UpdateState
from tests.spark.test_updates import jobs_of
from tests.support.engine_world import EngineWorld
from tests.support.interruption import StoppedHereError, stop
from tests.support.plain_tables import plain_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.run.update.results import UpdateResult

ORDERS = """id long, amount int, price decimal(38,10), ratio double, at timestamp, seen timestamp_ntz, data binary,
    tags map<int,struct<day:date,text:string>>, parts array<struct<n:int,f:float>>, any variant"""
CHANGES = "id long, name string, op string, seq long"
ON = {"sluice.quarantine": "true"}
NULL = "AUTOCDC_MICROBATCH_VALIDATION.NULL"
_EARLY = datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


def order(number: int, amount: int | None, **more: Any) -> tuple[Any, ...]:
    """A row of ORDERS with a value of each type."""
    values = {
        "id": number, "amount": amount, "price": Decimal("12345678901234567890.0123456789"), "ratio": float("nan"),
        "at": _EARLY, "seen": datetime(1, 1, 1, 0, 0, 0, 7),  # noqa: DTZ001 - a time without a zone
        "data": bytearray(b"\x00\xff"), "tags": {2: (date(2026, 1, 2), "é"), -1: None},
        "parts": [(1, 0.1), None, (None, float("-inf"))],
    } | more  # fmt: skip
    return tuple(values.values())


class World:
    """A pipeline of an append flow, a once flow and an AUTO CDC flow, each with a quarantine."""

    def __init__(self, made: EngineWorld) -> None:
        self.made = made
        self.least, self.named = 0, "name IS NOT NULL"

    def feed_orders(self, *rows: tuple[Any, ...]) -> None:
        """Append orders in one commit, with a VARIANT."""
        schema = ORDERS.replace(", any variant", "")
        frame = self.made.spark.createDataFrame(list(rows), schema).coalesce(1)
        frame = frame.selectExpr("*", "parse_json('{\"x\": 1.50}') AS any")
        frame.write.format("delta").mode("append").save(self.made.source("orders"))

    def feed_changes(self, *rows: tuple[Any, ...]) -> None:
        """Append change events in one commit."""
        self.made.feed(rows, CHANGES, "changes")

    def declare(self) -> None:
        """Declare the pipeline with the present conditions."""
        spark, source = self.made.spark, self.made.source

        dp.create_streaming_table(
            "orders", table_properties=ON, expect_all={"small": "amount < 100"},
            expect_all_or_drop={"positive": f"amount > {self.least}", "priced": "price IS NOT NULL"},
        )  # fmt: skip

        @dp.append_flow(target="orders", name="live")
        def live() -> DataFrame:
            return spark.readStream.format("delta").load(source("orders"))

        @dp.append_flow(target="orders", name="old", once=True)
        def old() -> DataFrame:
            return spark.createDataFrame([(-1, 5), (-2, -5)], "id long, amount int").selectExpr(
                "*", "1::decimal(38,10) AS price", "NULL AS nothing"
            )

        dp.create_streaming_table("customers", table_properties=ON, expect_all_or_drop={"named": self.named})

        @dp.auto_cdc_flow(
            target="customers", name="changes", keys=["id"], sequence_by="seq", where="op <> 'NOTE'",
            apply_as_deletes="op = 'DELETE'", except_column_list=["op", "seq"],
        )  # fmt: skip
        def changes() -> DataFrame:
            return spark.readStream.format("delta").load(source("changes"))

    def run(self, **request: Any) -> UpdateResult:
        """One update, one flow after the other."""
        alone = {"pipelines.maxParallelFlows": "1"}
        return self.made.pipeline(self.declare, configuration=alone).run(**request)

    def orders(self) -> list[int]:
        """The ids of the orders, which have a VARIANT besides, that only Spark reads."""
        rows = plain_rows(self.made.path("orders"), lambda _: ["id"])
        assert rows is not None
        return sorted(row.id for row in rows)

    def kept(self, flow: str | None = None) -> list[tuple[Any, ...]]:
        """Short flow, reasons, state and number of rows."""
        found = self.made.pipeline(self.declare).quarantine.list()
        rows = [(each.flow.rpartition(".")[2], each.reasons, each.state.value, each.rows) for each in found]
        return [row for row in rows if flow in (None, row[0])]


@pytest.fixture
def world(interpreting: SparkSession, tmp_path: Path) -> Iterator[World]:
    """Valid and faulty rows for each flow, before the first update."""
    made = World(EngineWorld(interpreting, tmp_path))
    made.feed_orders(order(1, 10), order(2, -1), order(3, None), order(4, 200, price=None))
    made.feed_changes(
        (1, "Ann", "UPSERT", 1), (None, "Nobody", "UPSERT", 2), (2, "Bo", "UPSERT", None), (3, None, "UPSERT", 4),
        (None, None, "NOTE", None), (4, "Di", "UPSERT", 5),
    )  # fmt: skip
    yield made
    disarm()


def test_rows_are_kept_once_and_go_to_their_table_after_the_fix(world: World) -> None:
    """Counts are those of the expectations; values return with their types; late events lose; the rest stays.

    After a crash between two commits, each row is in one place: a batch that is in its table is not decided anew, and a
    replay that has written is only marked. A batch of which only the quarantined rows were written, and the claims of
    appended rows, are in `test_quarantine_identity.py`.
    """
    made = world.made
    result = world.run()
    assert [flow.error for flow in result.flows if flow.error] == []
    assert world.orders() == [-1, 1]
    assert made.rows("customers") == [(1, "Ann"), (4, "Di")]
    first = [
        ("changes", (f"{NULL}_KEY",), "open", 1), ("changes", (f"{NULL}_SEQUENCE",), "open", 1),
        ("changes", ("named",), "open", 2),
        ("live", ("positive",), "open", 2), ("live", ("priced",), "open", 1), ("old", ("positive",), "open", 1),
    ]  # fmt: skip
    assert world.kept() == first
    live = next(flow for flow in result.flows if flow.flow.table == "live")
    assert (live.rows_written, live.rows_dropped) == (1, 3)
    assert {each.name: (each.passed, each.failed) for each in live.expectations} == {
        "small": (2, 2), "positive": (2, 2), "priced": (3, 1)
    }  # fmt: skip
    told = [event.details["flow_progress"].get("metrics", {}) for event in made.events(type="flow_progress")]
    assert sum(each.get("num_quarantined_rows", 0) for each in told) == 8

    world.feed_orders(order(5, 0), order(6, 60))
    world.feed_changes((4, "Dee", "UPSERT", 9), (4, None, "UPSERT", 8), (None, None, "DELETE", 3))
    arm("quarantine.after_target", action=stop)
    assert world.run(refresh=["orders"]).state is UpdateState.FAILED
    disarm()
    assert world.run().state is UpdateState.COMPLETED
    assert world.run().is_idle
    assert world.orders() == [-1, 1, 6]
    assert ("live", ("positive",), "open", 3) in world.kept()
    pipeline = made.pipeline(world.declare)
    found = pipeline.quarantine.rows("live").selectExpr("row:id::int AS order", "batch", "position").collect()
    assert sorted((row["order"], row["batch"]) for row in found) == [(2, 0), (3, 0), (4, 0), (5, 1)]
    positions = {row["batch"]: json.loads(row["position"]) for row in found}
    assert positions[1]["from"] == positions[0]["to"] != positions[1]["to"]

    events = world.kept("changes")
    assert [row[3] for row in events] == [2, 1, 3]
    # All events are read again, and one that is new: those that are open are quarantined no second time.
    world.feed_changes((5, "Eve", "UPSERT", None))
    assert world.run(reset_checkpoints=["changes"]).state is UpdateState.COMPLETED
    assert world.kept("changes") == [events[0], (*events[1][:3], 2), events[2]]
    check_events_that_are_looked_up_once(world)

    check_replay(world)
    check_interrupted_replays(world)


def check_replay(world: World) -> None:
    """After a fix, the rows that pass are written once; the others stay."""
    made = world.made
    # The fix: any amount is allowed.
    world.least = -5
    pipeline = made.pipeline(world.declare)
    assert [(d.passed, d.failed) for d in [pipeline.quarantine.replay("live", dry_run=True)]] == [(2, 2)]
    assert world.orders() == [-1, 1, 6]
    done = pipeline.quarantine.replay("s.live", reason="positive")
    assert (done.passed, done.failed_by_reasons) == (2, ((("positive",), 1),))
    by_id = {row[0]: row for row in made.rows("orders")}
    assert set(by_id) == {1, 2, 5, 6, -1}
    assert repr(by_id[2][2:-1]) == repr(by_id[1][2:-1])  # of all types; a NaN does not equal itself
    variants = pipeline.table("orders").where("id IN (1, 2)").selectExpr("schema_of_variant(any)", "to_json(any)")
    assert len(variants.distinct().collect()) == 1


def check_events_that_are_looked_up_once(world: World) -> None:
    """The first batch after a reset looks for what earlier generations left open, and the next ones have it."""
    made, spark = world.made, world.made.spark
    pipeline = made.pipeline(world.declare)
    table = QuarantineTable(storage=pipeline.storage, session=spark)
    flow, target = (QualifiedName(catalog="main", schema="s", table=name) for name in ("changes", "customers"))
    batch = QuarantinedBatch(
        pipeline=made.name, flow=flow, dataset=target, generation=3, number=0, transaction="t", update_id="u"
    )
    stored = list(by_columns(table.read().where(is_of(target, flow))))
    ((rows, columns),) = stored
    left = rows.select(*from_variant(F.col("row"), columns), F.col("reasons").alias(REASONS), F.col("file").alias(FILE))
    new = left.limit(1).withColumn("id", F.expr("99L"))
    open_events = OpenEvents()
    states = pipeline.quarantine._states
    try:
        found = [open_events.without(left, batch, table, states)]
        before = jobs_of(spark)
        found += [open_events.without(events, batch, table, states) for events in (left, new)]
        assert jobs_of(spark) == before
        assert [each.count() for each in found] == [0, 0, 1]
    finally:
        open_events.close()


def check_interrupted_replays(world: World) -> None:
    """A claim is released, and its rows are decided anew; what was written is marked; the rest can be dropped."""
    made = world.made
    for point, flows, named, least, states in (
        ("quarantine.after_claim", ("changes",), "id = 4", -5, {"open"}),
        ("quarantine.after_replay", ("changes", "old"), "id = 3", -6, {"open", "replayed"}),
    ):
        world.named, world.least = named, least
        pipeline = made.pipeline(world.declare)
        for flow in flows:
            arm(point, action=stop)
            with pytest.raises(StoppedHereError):
                pipeline.quarantine.replay(flow)
        disarm()
        assert {row[2] for row in world.kept("changes")} == states
    assert made.rows("customers") == [(1, "Ann"), (3, None), (4, "Dee")]
    world.named = "true"
    pipeline = made.pipeline(world.declare)
    assert pipeline.quarantine.replay("old").passed == 0
    done = pipeline.quarantine.replay("changes")
    assert (done.passed, done.failed) == (2, 4)
    assert made.rows("customers") == [(1, "Ann"), (3, None), (4, "Dee")]  # at 9: the replayed event has the sequence 8
    assert world.orders() == [-2, -1, 1, 2, 5, 6]
    assert [row for row in world.kept() if row[2] == "replayed"] == [
        ("changes", ("named",), "replayed", 3),
        ("live", ("positive",), "replayed", 2), ("old", ("positive",), "replayed", 1),
    ]  # fmt: skip
    assert pipeline.quarantine.drop("changes", reason=f"{NULL}_KEY") == 2
    assert pipeline.quarantine.drop("live", replayed=True) == 2
    assert [row[2] for row in world.kept("live")] == ["open", "open"]
    assert pipeline.sql("SELECT count(*) FROM quarantine_log WHERE state = 'open'").collect()[0][0] == 4
    # A full refresh reads everything again: the rows from before are no longer open, so they are not replayed too.
    world.run(full_refresh=["orders"])
    assert sorted((row[0], row[2], row[3]) for row in world.kept() if row[0] != "changes") == [
        ("live", "open", 1), ("live", "open", 1), ("live", "superseded", 1), ("live", "superseded", 1),
        ("old", "replayed", 1),
    ]  # fmt: skip


def test_files_are_quarantined_by_the_configuration_and_misuse_is_refused(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """A record that can't be parsed is kept with its text and file; names and values that don't exist are errors."""
    made = EngineWorld(interpreting, tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.json").write_text('{"id": 1}\n{"id": "x"}\n{"id":\n{"id": 2}\n', "utf-8")

    def declare() -> None:
        @dp.table
        @dp.expect_or_drop("parsed", "_rescued_data IS NULL")
        def readings() -> DataFrame:
            reader = interpreting.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            reader = reader.option("rescuedDataColumn", "_rescued_data").option(
                "cloudFiles.schemaEvolutionMode", "none"
            )
            return reader.schema("id int, _rescued_data string").load(str(tmp_path / "in"))

        @dp.table(table_properties={"sluice.quarantine": "FALSE"})
        @dp.expect_or_drop("parsed", "id > 1")
        def plain() -> DataFrame:
            return interpreting.readStream.table("readings")

    pipeline = made.pipeline(declare, configuration={"sluice.quarantine": "true"})
    result = pipeline.run()
    assert [flow.error for flow in result.flows if flow.error] == []
    rows = pipeline.quarantine.rows().selectExpr("flow", "file", "row:_rescued_data::string AS data").collect()
    found = [json.loads(row["data"]) for row in rows]
    assert sorted(str(each.get("id", each.get("_corrupt_record"))) for each in found) == ["x", '{"id":']
    assert {row[0] for row in made.rows("readings")} == {1, 2}
    assert {(row["flow"], row["file"].rpartition("/")[2]) for row in rows} == {("main.s.readings", "a%20b.json")}
    # Without the setting and with it again, on the same checkpoint: Spark's own sink takes turns with ours.
    for number, configuration in ((3, {}), (4, {"sluice.quarantine": "true"})):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}}}\n{{"id": "x{number}"}}\n', "utf-8")
        assert made.pipeline(declare, configuration=configuration).run().state is UpdateState.COMPLETED
    assert [row[0] for row in made.rows("readings")] == [1, 2, 3, 4]
    assert [row[0] for row in made.rows("plain")] == [2, 3, 4]
    assert [(each.rows, each.flow) for each in pipeline.quarantine.list()] == [(3, "main.s.readings")]
    for work, condition in (
        (lambda: pipeline.quarantine.rows("reading"), "QUARANTINE_FLOW_NOT_FOUND"),
        (lambda: pipeline.quarantine.replay("readings", reason="pars"), "QUARANTINE_REASON_NOT_FOUND"),
        (lambda: made.pipeline(lambda: None).quarantine.replay("readings"), "QUARANTINE_FLOW_NOT_DECLARED"),
        (lambda: made.pipeline(declare, configuration={"sluice.quarantine": "yes"}).run(), "INVALID_CONFIGURATION"),
    ):
        with pytest.raises(UserError) as raised:
            work()
        assert raised.value.condition == condition

    def misused() -> None:
        dp.create_streaming_table("copied", table_properties={"sluice.quarantine": "true"})
        dp.create_auto_cdc_from_snapshot_flow(target="copied", source="readings", keys=["id"])

        @dp.table(table_properties={"sluice.quarantine": "true"})
        def computed() -> DataFrame:
            return interpreting.range(1)

        @dp.materialized_view(table_properties={"sluice.quarantine": "maybe"})
        def view() -> DataFrame:
            return interpreting.range(1)

    with pytest.raises(GraphErrors) as refused:
        made.pipeline(misused).validate()
    assert sorted(error.condition for error in refused.value.errors) == [
        "QUARANTINE_INVALID", "QUARANTINE_OF_SNAPSHOTS", "QUARANTINE_OF_VIEW",
    ]  # fmt: skip


def test_a_variant_has_every_type_exactly(interpreting: SparkSession) -> None:
    """All types of Delta and those that it lacks, at their bounds, nested and null."""
    rows = interpreting.sql(
        """SELECT true AS boolean, 1Y AS byte, -2S AS short, 9223372036854775807L AS long, 0.1F AS float,
        double('-0.0') AS zero, double('NaN') AS nan, 1.50BD AS money, cast('-0.1' AS decimal(38,38)) AS narrow,
        '' AS empty, X'' AS bytes, date'9999-12-31' AS day, timestamp'0002-01-01 00:00:00.000001Z' AS instant,
        timestamp_ntz'9999-12-31 23:59:59.999999' AS local, interval '1 02:03:04.5' DAY TO SECOND AS length,
        interval '-3' MONTH AS months, null AS void, cast(null AS struct<a:int>) AS no_struct,
        named_struct('a b', cast(null AS int), 'c.d', array(null, 1)) AS odd, map('k', map(1.5BD, X'01')) AS maps,
        map(named_struct('x', 1), interval '1' DAY) AS keyed, cast(map() AS map<int,int>) AS empty_map,
        array(named_struct('void', null)) AS voids, parse_json('[1, {"a": null}]') AS any,
        cast(null AS variant) AS none"""
    )
    stored = rows.select(to_variant(rows.schema).alias("row")).localCheckpoint()
    restored = stored.select(*from_variant(stored["row"], rows.schema))
    names = [name for name in rows.columns if name not in {"any", "months"}] + ["cast(months AS string)"]
    assert [each.dataType.simpleString() for each in restored.schema] == [
        each.dataType.simpleString() for each in rows.schema
    ]
    expected, found = rows.selectExpr(*names).collect()[0], restored.selectExpr(*names).collect()[0]
    assert repr(expected) == repr(found)
    assert restored.selectExpr("to_json(any)").collect()[0][0] == '[1,{"a":null}]'
