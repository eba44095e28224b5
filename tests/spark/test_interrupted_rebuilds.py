"""Full refreshes that die between two of their writes: whatever runs next, no row is lost and none is doubled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta import DeltaTable

from framework import pipelines as dp
from framework.foundation.errors import UserError
from framework.foundation.failpoints import arm, disarm
from framework.run.update.checkpoint_actions import reset_checkpoint
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld, forget_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAYMENT, CHANGE = "id INT, amount INT", "id INT, name STRING, operation STRING, seq INT"
FIRST = [(1, 10), (2, 20)]
LATER = [(3, 30)]


class Killed(BaseException):
    """Ends an update as a kill does: no handler of an `Exception` writes anything after it."""


def shop(
    world: EngineWorld, *, amount: str = "amount", more: bool = True, comment: str | None = None
) -> Callable[[], None]:
    """Declares an append table of two flows, another one, and a target of AUTO CDC with deletes."""

    def declare() -> None:
        spark = world.spark
        dp.create_streaming_table("ledger", comment=comment)

        @dp.append_flow(target="ledger")
        def payments() -> DataFrame:
            read = spark.readStream.format("delta").load(world.source())
            return read.selectExpr("id", f"{amount} AS amount")

        if more:

            @dp.append_flow(target="ledger")
            def refunds() -> DataFrame:
                return spark.readStream.format("delta").load(world.source("refunds"))

        @dp.table
        def others() -> DataFrame:
            return spark.readStream.format("delta").load(world.source("refunds"))

        @dp.temporary_view
        def events() -> DataFrame:
            return spark.readStream.format("delta").load(world.source("changes"))

        dp.create_streaming_table("customers")
        dp.create_auto_cdc_flow(
            target="customers", source="events", keys=["id"], sequence_by="seq",
            apply_as_deletes="operation = 'DELETE'", except_column_list=["operation", "seq"],
        )  # fmt: skip

    return declare


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    """The shop after its first update; tests go on from copies of it."""
    made = EngineWorld(spark, tmp_path_factory.mktemp("first"))
    made.feed(FIRST, PAYMENT)
    made.feed([(9, -1)], PAYMENT, "refunds")
    made.feed([(1, "Ann", "INSERT", 1), (2, "Bob", "INSERT", 2), (5, None, "DELETE", 3)], CHANGE, "changes")
    assert made.run(shop(made)).state is UpdateState.COMPLETED
    return made


@pytest.fixture
def world(first: EngineWorld, tmp_path: Path) -> EngineWorld:
    """The shop in a folder of the test."""
    return first.copy(tmp_path)


def kill(world: EngineWorld, failpoint: str, declare: Callable[[], None] | None = None, **request: Any) -> None:
    """Run an update that dies at a failpoint."""

    def die() -> None:
        raise Killed

    arm(failpoint, action=die)
    try:
        with pytest.raises(Killed):
            world.run(declare or shop(world), **request)
    finally:
        disarm()


def run(world: EngineWorld, declare: Callable[[], None] | None = None, **request: Any) -> None:
    """Run an update to its end."""
    result = world.run(declare or shop(world), **request)
    assert result.state is UpdateState.COMPLETED, [flow.error for flow in result.flows]


@pytest.mark.parametrize("failpoint", ["rebuilds.after_begin", "rebuilds.after_freeze"])
def test_columns_that_only_a_full_refresh_can_change_do_not_stop_its_end(world: EngineWorld, failpoint: str) -> None:
    """The update after the death compares the code with the columns of the copy, not with those of the old table.

    The death is before the commit of the rows; new rows and new code come before the next update. Each is there once.
    """
    kill(world, failpoint, shop(world, amount="'x'", more=False), full_refresh=["ledger"])
    world.feed(LATER, PAYMENT)
    run(world, shop(world, amount="'y'", more=False), refresh=["ledger"])
    before = "x" if failpoint == "rebuilds.after_freeze" else "y"
    assert world.rows("ledger") == [(1, before), (2, before), (3, "y")]
    assert [each.name for each in rebuilds(world, "ledger").iterdir()] == ["rebuild.json"]


def test_rows_are_published_again_if_an_older_copy_of_the_table_was_put_back(world: EngineWorld) -> None:
    """The death is after the commit of the rows, and before their checkpoints are those of the table."""
    shutil.copytree(world.path("ledger"), world.root / "older")
    doubled = shop(world, amount="amount * 2")
    kill(world, "rebuilds.after_mark", doubled, full_refresh=["ledger"])
    shutil.rmtree(world.path("ledger"))
    shutil.copytree(world.root / "older", world.path("ledger"))
    forget_tables()
    run(world, doubled, refresh=["ledger"])
    assert world.rows("ledger") == [(1, 20), (2, 40), (9, -1)]


def test_the_update_after_the_death_may_be_any(world: EngineWorld) -> None:
    """One of other tables leaves the rest to the next; a reset and a full refresh start from the finished refresh.

    The death is after the commit of the rows; new rows and new code come before the next update.
    """
    kill(world, "rebuilds.after_publish", full_refresh=["ledger"])
    world.feed(LATER, PAYMENT)
    with pytest.raises(UserError, match="FULL_REFRESH_UNFINISHED"):
        reset_checkpoint(world.pipeline(shop(world)).storage, world.name, "payments")
    run(world, refresh=["others"])
    run(world, shop(world, amount="amount * 2"), reset_checkpoints=["payments"])
    assert world.rows("ledger") == [(1, 10), (1, 20), (2, 20), (2, 40), (3, 60), (9, -1)]
    assert [each.name for each in rebuilds(world, "ledger").iterdir()] == ["rebuild.json"]
    run(world, full_refresh=["ledger"])
    assert world.rows("ledger") == [(1, 10), (2, 20), (3, 30), (9, -1)]


def test_a_publication_that_fails_concerns_its_own_table_only(world: EngineWorld) -> None:
    """Of two refreshes one can't be published: the other one is, and the next update does the rest.

    The auxiliary table is published, the target is not; a delete arrives, and then an older event of its key.
    """

    def fail() -> None:
        raise RuntimeError

    doubled = shop(world, amount="amount * 2")
    arm("rebuilds.after_auxiliary", action=fail)
    try:
        result = world.run(doubled, full_refresh=["customers", "ledger"])
    finally:
        disarm()
    assert result.state is UpdateState.FAILED
    assert world.rows("ledger") == [(1, 20), (2, 40), (9, -1)]
    world.feed([(2, "Bobby", "UPDATE", 4), (1, None, "DELETE", 9)], CHANGE, "changes")
    run(world, doubled, refresh=["customers"])
    world.feed([(1, "Late", "UPDATE", 8)], CHANGE, "changes")
    run(world, doubled, refresh=["customers"])
    assert world.rows("customers") == [(2, "Bobby")]


def test_a_refresh_whose_copy_is_gone_fails_and_changes_no_row(world: EngineWorld) -> None:
    """The copies of complete refreshes are deleted by hand, also of AUTO CDC; a new refresh is the way out."""
    kill(world, "rebuilds.after_freeze", full_refresh=["ledger", "customers"])
    world.feed(LATER, PAYMENT)
    world.feed([(3, "Cid", "INSERT", 4)], CHANGE, "changes")
    for name in ("ledger", "customers"):
        shutil.rmtree(rebuilds(world, name) / "1")
    result = world.run(shop(world))
    errors = {flow.dataset.table: flow.error.condition for flow in result.flows if flow.error is not None}
    assert errors == dict.fromkeys(("ledger", "customers"), "REBUILD_COPY_LOST")
    assert (world.rows("ledger"), world.rows("customers")) == ([(1, 10), (2, 20), (9, -1)], [(1, "Ann"), (2, "Bob")])
    run(world, full_refresh=["ledger", "customers"])
    assert world.rows("ledger") == [(1, 10), (2, 20), (3, 30), (9, -1)]
    assert world.rows("customers") == [(1, "Ann"), (2, "Bob"), (3, "Cid")]


def test_a_flow_that_is_declared_again_after_a_full_refresh_without_it_reads_everything(world: EngineWorld) -> None:
    """Its rows are gone with the refresh, so its checkpoint from before is not continued.

    Another refresh is published where nothing is known of that one: the table remembers transactions with the numbers
    of a storage that is gone, and they are not taken for the new ones.
    """
    run(world, shop(world, more=False, comment="short"), full_refresh=["ledger"])
    assert world.rows("ledger") == [(1, 10), (2, 20)]
    table = DeltaTable.forPath(world.spark, world.path("ledger"))
    assert [row["description"] for row in table.detail().select("description").collect()] == ["short"]
    run(world, refresh=["ledger"])
    assert world.rows("ledger") == [(1, 10), (2, 20), (9, -1)]
    shutil.rmtree(rebuilds(world, "ledger"))
    run(world, shop(world, amount="amount * 2"), full_refresh=["ledger"])
    assert world.rows("ledger") == [(1, 20), (2, 40), (9, -1)]


def test_history_with_keys_is_exact_although_the_code_has_changed(world: EngineWorld) -> None:
    """What the sources still have counts as the new code writes it, what they lost as it was, also after a death."""
    DeltaTable.forPath(world.spark, world.source()).delete("id = 1")
    changed = shop(world, amount="amount * 2")
    request: dict[str, Any] = {"full_refresh": ["ledger"], "keep_history": True}
    with pytest.raises(UserError, match="HISTORY_NEEDS_KEYS"):
        world.run(changed, **request)
    kill(world, "rebuilds.after_publish", changed, **request, history_keys=["id"])
    world.feed(LATER, PAYMENT)
    run(world, changed, refresh=["ledger"])
    assert world.rows("ledger") == [(1, 10), (2, 40), (3, 60), (9, -1)]


def rebuilds(world: EngineWorld, table: str) -> Path:
    """The folder of a table's refreshes."""
    return world.root / "storage" / "rebuilds" / f"main.s.{table}"
