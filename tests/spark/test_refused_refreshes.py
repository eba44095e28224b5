"""Full refreshes whose rows the table does not take, because of a property or a constraint of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.plan.steps import RefuseTable
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.run.update.results import UpdateResult


def error_of(result: UpdateResult) -> tuple[str, str]:
    """The condition and the text of the only error of an update."""
    (error,) = [flow.error for flow in result.flows if flow.error is not None]
    return error.condition, error.render()


def test_a_full_refresh_of_an_append_only_table_is_refused_by_the_plan(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Before anything is computed; other updates go on, and the refresh is possible without the property."""
    world = EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        @dp.table(table_properties={"delta.appendOnly": "true"})
        def kept() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    world.feed([(1,)], "id INT")
    assert world.run(declare).state is UpdateState.COMPLETED
    world.feed([(2,)], "id INT")
    steps = world.pipeline(declare).plan(full_refresh=["kept"]).steps
    assert [type(step) for step in steps] == [RefuseTable]
    condition, text = error_of(world.run(declare, full_refresh=["kept"]))
    assert condition == "FULL_REFRESH_OF_APPEND_ONLY_TABLE"
    assert (world.rows("kept"), (tmp_path / "storage" / "rebuilds").exists()) == ([(1,)], False)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("kept") == [(1,), (2,)]

    statement = re.search(r"ALTER TABLE .*'false'\)", text)
    assert statement is not None
    interpreting.sql(statement[0])
    assert world.run(declare, full_refresh=["kept"]).state is UpdateState.COMPLETED
    assert world.rows("kept") == [(1,), (2,)]
    properties = interpreting.sql(f"SHOW TBLPROPERTIES delta.`{world.path('kept')}`").collect()
    assert ("delta.appendOnly", "true") in {tuple(row) for row in properties}


def declarations(world: EngineWorld, kind: str, sign: int) -> Callable[[], None]:
    """A table whose values have a sign; a target of AUTO CDC, if it is `merged`."""

    def rows() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source()).selectExpr("id", f"{sign} * id AS value")

    def declare() -> None:
        if kind == "appended":
            dp.table(name="t")(rows)
        else:
            dp.create_streaming_table("t")
            dp.auto_cdc_flow(target="t", name="changes", keys=["id"], sequence_by="id")(rows)

    return declare


@pytest.mark.parametrize("kind", ["appended", "merged"])
def test_a_full_refresh_that_violates_a_constraint_of_a_user_names_it(
    interpreting: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The table is as before, until the constraint is dropped, or a corrected query is refreshed."""
    world, text = EngineWorld(interpreting, tmp_path / "refused"), ""
    world.feed([(1,)], "id INT")
    assert world.run(declarations(world, kind, 1)).state is UpdateState.COMPLETED
    interpreting.sql(f"ALTER TABLE delta.`{world.path('t')}` ADD CONSTRAINT positive CHECK (value > 0)")
    for number, refreshed in ((2, ["t"]), (None, []), (3, [])):  # also without new data
        if number is not None:
            world.feed([(number,)], "id INT")
        condition, text = error_of(world.run(declarations(world, kind, -1), full_refresh=refreshed))
        assert condition == "FULL_REFRESH_VIOLATES_CONSTRAINT", text
        assert "positive" in text
        assert world.rows("t") == [(1, 1)]
    corrected = world.copy(tmp_path / "corrected")
    assert corrected.run(declarations(corrected, kind, 1), full_refresh=["t"]).state is UpdateState.COMPLETED
    assert corrected.rows("t") == [(1, 1), (2, 2), (3, 3)]
    check_next_row(corrected, kind)
    if kind == "appended":
        drop_constraint(world, text)
        assert world.run(declarations(world, kind, -1)).state is UpdateState.COMPLETED
        assert world.rows("t") == [(1, -1), (2, -2), (3, -3)]
        check_next_row(world, kind)
        check_value_without_result(world)
        check_gone_column(world)


def check_next_row(world: EngineWorld, kind: str) -> None:
    """The flow goes on from its new checkpoint."""
    before = world.rows("t")
    world.feed([(4,)], "id INT")
    assert world.run(declarations(world, kind, 1)).state is UpdateState.COMPLETED
    assert world.rows("t") == [*before, (4, 4)]


def drop_constraint(world: EngineWorld, text: str) -> None:
    """Do what the text of an error says."""
    statement = re.search(r"ALTER TABLE .* DROP CONSTRAINT \S+", text)
    assert statement is not None
    world.spark.sql(statement[0])


def check_value_without_result(world: EngineWorld) -> None:
    """A full refresh with a value that ends the check of a constraint is refused as one that violates it."""
    before = world.rows("t")
    world.spark.sql(f"ALTER TABLE delta.`{world.path('t')}` ADD CONSTRAINT share CHECK (10 / value < 100)")
    declare = declarations(world, "appended", 0)
    condition, text = error_of(world.run(declare, full_refresh=["t"]))
    assert condition == "FULL_REFRESH_MISFITS_CONSTRAINT", text
    assert "Spark reports: [DIVIDE_BY_ZERO]" in text
    assert world.rows("t") == before
    drop_constraint(world, text)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("t") == [(row[0], 0) for row in before]


def check_gone_column(world: EngineWorld) -> None:
    """A full refresh that drops a column with a constraint names it, and is published without the constraint."""
    before = world.rows("t")
    world.spark.sql(f"ALTER TABLE delta.`{world.path('t')}` ADD CONSTRAINT known CHECK (value IS NOT NULL)")

    def declare() -> None:
        dp.table(name="t")(lambda: world.spark.readStream.format("delta").load(world.source()))

    condition, text = error_of(world.run(declare, full_refresh=["t"]))
    assert condition == "FULL_REFRESH_MISFITS_CONSTRAINT", text
    assert "constraint known (value IS NOT NULL)." in text
    assert "Spark reports: [UNRESOLVED_COLUMN" in text
    assert world.rows("t") == before
    drop_constraint(world, text)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("t") == [(row[0],) for row in before]


@pytest.mark.parametrize("kind", ["appended", "merged"])
def test_a_corrected_full_refresh_keeps_history_after_one_that_was_refused(
    interpreting: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Nothing of the refused one is in the table, so the rows that the sources no longer have are those of before."""
    world = EngineWorld(interpreting, tmp_path)

    declared = partial(declarations, world, kind)
    world.feed([(1,), (2,)], "id INT")
    assert world.run(declared(1)).state is UpdateState.COMPLETED
    address = f"delta.`{world.path('t')}`"
    interpreting.sql(f"ALTER TABLE {address} ADD CONSTRAINT positive CHECK (value > 0)")
    interpreting.sql(f"DELETE FROM delta.`{world.source()}` WHERE id = 1")
    world.feed([(3,)], "id INT")
    keys = {"history_keys": ["id"]} if kind == "appended" else {}
    refused = world.run(declared(-1), full_refresh=["t"], keep_history=True, **keys)
    assert error_of(refused)[0] == "FULL_REFRESH_VIOLATES_CONSTRAINT"
    result = world.run(declared(1), full_refresh=["t"], keep_history=True, **keys)
    assert result.state is UpdateState.COMPLETED
    assert world.rows("t") == [(1, 1), (2, 2), (3, 3)]


def test_history_is_not_kept_from_the_two_tables_of_different_full_refreshes(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The auxiliary table is that of a refused one, so the deletes that only the former one had would be lost."""
    world = EngineWorld(interpreting, tmp_path)

    def declared(sign: int) -> Callable[[], None]:
        def declare() -> None:
            dp.create_streaming_table("t")

            @dp.auto_cdc_flow(
                target="t", name="changes", keys=["id"], sequence_by="seq", apply_as_deletes="operation = 'DELETE'",
                except_column_list=["operation", "seq"], stored_as_scd_type=2,
            )  # fmt: skip
            def changes() -> DataFrame:
                rows = world.spark.readStream.format("delta").load(world.source())
                return rows.selectExpr("id", f"{sign} * id AS value", "operation", "seq")

        return declare

    world.feed([(1, "INSERT", 1), (2, "DELETE", 9)], "id INT, operation STRING, seq INT")
    assert world.run(declared(1)).state is UpdateState.COMPLETED
    interpreting.sql(f"DELETE FROM delta.`{world.source()}` WHERE id = 2")
    interrupt(lambda: world.run(declared(-1), full_refresh=["t"]), "rebuilds.after_auxiliary")
    address = f"ALTER TABLE delta.`{world.path('t')}`"
    interpreting.sql(f"{address} ADD CONSTRAINT positive CHECK (value > 0)")
    refused = world.run(declared(1), full_refresh=["t"], keep_history=True)
    assert error_of(refused)[0] == "FULL_REFRESH_VIOLATES_CONSTRAINT"
    assert world.rows("t") == [(1, 1, 1, None)]
    interpreting.sql(f"{address} DROP CONSTRAINT positive")
    assert world.run(declared(-1)).state is UpdateState.COMPLETED
    assert world.rows("t") == [(1, -1, 1, None)]


def test_a_table_that_became_append_only_takes_its_full_refresh_when_it_is_not_any_more(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The refresh was interrupted when all was read; the property is named, also without new data."""
    world = EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        dp.table(name="t")(lambda: world.spark.readStream.format("delta").load(world.source()))

    world.feed([(1,)], "id INT")
    assert world.run(declare).state is UpdateState.COMPLETED
    interrupt(lambda: world.run(declare, full_refresh=["t"]), "rebuilds.after_freeze")
    address = f"ALTER TABLE delta.`{world.path('t')}` SET TBLPROPERTIES ('delta.appendOnly' = "
    interpreting.sql(f"{address}'true')")
    for number in (None, 2):
        if number is not None:
            world.feed([(number,)], "id INT")
        assert error_of(world.run(declare))[0] == "FULL_REFRESH_OF_APPEND_ONLY_TABLE"
    interpreting.sql(f"{address}'false')")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("t") == [(1,), (2,)]
