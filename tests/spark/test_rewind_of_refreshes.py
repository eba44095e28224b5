"""A rewind to before a full refresh undoes what the refresh quarantined, and once flows do not run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = "id INT, amount INT"


def test_a_rewind_undoes_the_quarantine_of_a_refresh(interpreting: SparkSession, tmp_path: Path) -> None:
    """Each row is in the table or open, once, also those of once flows, if a reader takes the table further back."""
    world = EngineWorld(interpreting, tmp_path)
    rules = ["amount > 0"]

    def read(source: str) -> DataFrame:
        return interpreting.readStream.format("delta").load(world.source(source))

    def declare() -> None:
        dp.create_streaming_table(
            "payments", table_properties={"sluice.quarantine": "true"}, expect_all_or_drop={"valid": rules[0]}
        )
        dp.append_flow(target="payments", name="opening", once=True)(
            lambda: interpreting.createDataFrame([(1, 5), (2, -5)], DDL)
        )
        dp.append_flow(target="payments", name="daily")(lambda: read("daily"))
        dp.table(name="copied")(lambda: interpreting.readStream.table("payments"))
        dp.temporary_view(name="imports")(lambda: read("imports"))
        dp.create_streaming_table("people")
        dp.create_auto_cdc_flow(target="people", source="imports", keys=["id"], sequence_by="amount", once=True)

    def kept() -> dict[str, list[int]]:
        """The ids of the quarantined rows, by state."""
        rows = world.pipeline(declare).quarantine.rows().selectExpr("state", "row:id::int AS id").collect()
        return {state: sorted(row.id for row in rows if row.state == state) for state in {row.state for row in rows}}

    world.feed([(31, 5)], DDL, "imports")
    world.feed([(21, 5), (22, -5)], DDL, "daily")
    first = world.run(declare)
    before = [(1, 5), (21, 5)]
    assert (world.rows("payments"), kept()) == (before, {"open": [2, 22]})
    world.feed([(32, 5)], DDL, "imports")
    rules[0] = "amount < 0"
    refreshed = world.run(declare, full_refresh=["payments", "people"])
    assert (kept(), world.rows("people")) == ({"open": [1, 21], "superseded": [2, 22]}, [(31, 5), (32, 5)])
    world.feed([(23, 5)], DDL, "daily")
    rules[0] = "amount > 0"
    world.run(declare, refresh=["payments"])
    rewinds = world.pipeline(declare).rewinds
    # `copied` has not read the refreshed rows, so that `payments` goes back to before the refresh.
    plan = rewinds.plan(refreshed.update_id, ["payments"])
    assert [each.reads for each in plan.flows if each.flow.completed] == [("nothing: it has run",)]
    rewinds.rewind(plan)
    assert (world.rows("payments"), kept()) == (before, {"open": [2, 22]})
    rewinds.rewind(rewinds.plan(first.update_id, ["people"]))
    assert world.run(declare).state is UpdateState.COMPLETED
    after = [*before, (23, 5)]
    assert (world.rows("payments"), world.rows("copied"), kept()) == (after, after, {"open": [2, 22]})
    assert world.rows("people") == [(31, 5)]
