"""The five usual mistakes of AUTO CDC, and the test that finds each.

Each mutation changes the product, and the test named with it must fail. Without the mutation, each of these tests
passes in its own file.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta import merge_write, open_tables
from framework.cdc.delta.target_write import SOURCE, TARGET, Clauses
from framework.cdc.delta.transaction import Transaction
from framework.cdc.events.normalize import ORDER
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import point_of, row_point
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.cdc.scd1 import authored_rows
from framework.cdc.scd1 import latest_events as facts
from framework.cdc.scd1 import merge as scd1
from framework.engine.jvm import java
from tests.spark import test_auto_cdc_scd1 as scd1_tests
from tests.spark.test_auto_cdc_scenarios import FOLDER, IGNORING, outcomes
from tests.support.cdc_cases import CHANGES
from tests.support.cdc_scenarios import read_scenarios
from tests.support.cdc_world import World

Mutation = Callable[[pytest.MonkeyPatch], None]
Catcher = Callable[[SparkSession, Path], None]


def drop_tombstones(patch: pytest.MonkeyPatch) -> None:
    """Recorded deletes are not read."""
    patch.setattr(open_tables, "read_auxiliary_table", lambda *_: None)


def compare_with_or_equal(patch: pytest.MonkeyPatch) -> None:
    """An upsert at the point of the row replaces it, whatever its content."""
    clauses_for = scd1.clauses_for

    def mutated(target: CdcTarget, *, floor: Column | None) -> Clauses:
        clauses = clauses_for(target, floor=floor)
        upsert = point_of(column(ORDER, of=SOURCE), target.order_type)
        return replace(clauses, update=upsert >= row_point(column(HIDDEN_COLUMN, of=TARGET), target.hidden_type))

    patch.setattr(scd1, "clauses_for", mutated)


def compare_whole_events(patch: pytest.MonkeyPatch) -> None:
    """An event is newer or older as a whole, whichever event wrote each leaf of the row."""

    def is_newer(_new: Column, _old: Column, _is_gone: Column) -> Column:
        return F.coalesce(column(ORDER) > column(authored_rows._OLD_ORDER), F.expr("true"))

    patch.setattr(authored_rows, "_is_newer", is_newer)


def take_the_last_row(patch: pytest.MonkeyPatch) -> None:
    """The last event of a key in the batch counts."""

    def last_values(target: CdcTarget, upsert: Column) -> tuple[list[Column], list[Column]]:
        names = [field.name for field in target.value_fields]
        last = F.last(F.when(upsert.isNotNull(), F.struct(*map(column, names))), ignorenulls=True).alias(
            "__sluice_last"
        )
        return [last], [column("__sluice_last").getField(name).alias(name) for name in names]

    patch.setattr(facts, "_whole_values", last_values)


def skip_the_transaction(patch: pytest.MonkeyPatch) -> None:
    """Commits have no transaction identifier."""
    patch.setattr(merge_write, "committing_once", lambda *_: nullcontext())
    patch.setattr(Transaction, "has_applied", lambda *_: False)


def scenario(file: str, called: str) -> Catcher:
    """One line of the catalogue."""
    (line,) = (scenario for scenario in read_scenarios(FOLDER / file) if scenario.name == called)
    spec, other = (IGNORING, CHANGES) if "ignore_null" in file else (CHANGES, None)

    def holds(spark: SparkSession, root: Path) -> None:
        assert {called: line.rows} == outcomes(spark, root, (line,), spec, other=other)

    return holds


def golden(test: Callable[[World], None]) -> Catcher:
    """A test of the golden flows."""
    return lambda spark, root: test(World(spark, root, scd1_tests.FLOWS))


def replayed(world: World) -> None:
    """The golden batch, and the test that applies it again."""
    metrics = world.apply("changes", scd1_tests.GOLDEN, batch_id=0)
    scd1_tests.test_a_replayed_batch_is_skipped(scd1_tests.Golden(world=world, metrics=metrics))


MUTATIONS: tuple[tuple[Mutation, Catcher], ...] = (
    (drop_tombstones, scenario("scd1.txt", "delete before its insert arrives")),
    (compare_with_or_equal, golden(scd1_tests.test_a_tie_has_the_same_winner_in_any_order_of_arrival)),
    (compare_whole_events, scenario("scd1_ignore_null.txt", "a late event fills what a newer one left")),
    (take_the_last_row, scenario("scd1.txt", "the batch's last row is not its highest sequence")),
    (skip_the_transaction, golden(replayed)),
)


@pytest.mark.parametrize(("mutate", "catch"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_a_mutation_fails_its_test(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, mutate: Mutation, catch: Catcher
) -> None:
    """With the mutation, the test fails with an AssertionError."""
    swap.setattr(java, "_kept", WeakKeyDictionary())  # nothing that was built without the mutation
    mutate(swap)
    with pytest.raises(AssertionError):
        catch(spark, tmp_path)
