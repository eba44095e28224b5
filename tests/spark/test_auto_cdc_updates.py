"""AUTO CDC targets over several updates: a full refresh of some, RESTORE to fewer columns, CHAR and VARCHAR keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.cdc.model.reserved_names import AUXILIARY_PREFIX
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import delete_old_files, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED = {"delta.enableChangeDataFeed": "true"}
TARGETS: dict[str, tuple[int, dict[str, str]]] = {
    "one": (1, {}), "one_merged": (1, FEED), "two": (2, {}), "two_merged": (2, FEED),
}  # fmt: skip
"""Each type, written by replacing files and by MERGE. A test has each type and each way."""
INTERVAL = ("__START_AT", "__END_AT")
DDL = "id INT, name STRING, op STRING, seq INT"
Rows = list[tuple[Any, ...]]


@pytest.fixture
def world(interpreting: SparkSession, tmp_path: Path) -> EngineWorld:
    """Two keys."""
    world = EngineWorld(interpreting, tmp_path)
    world.feed([(1, "a", "U", 1), (2, "a", "U", 1)], DDL)
    return world


def targets(world: EngineWorld, *names: str, keys: tuple[str, ...] = ("id",)) -> Callable[[], None]:
    """Declares AUTO CDC targets of one source, each with a flow of its own; `events` is a table of all events."""

    def declare() -> None:
        @dp.temporary_view
        def changes() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        if "events" in names:

            @dp.table
            def events() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source())

        for name in names:
            if name == "events":
                continue
            scd_type, properties = TARGETS[name.removeprefix("beside_")]
            dp.create_streaming_table(name, table_properties=properties)
            dp.create_auto_cdc_flow(
                target=name, source="changes", keys=list(keys), sequence_by="seq", apply_as_deletes="op = 'D'",
                except_column_list=["op", "seq"], stored_as_scd_type=scd_type, name=f"into_{name}",
            )  # fmt: skip

    return declare


def by_type(names: tuple[str, ...], one: Rows, two: Rows) -> dict[str, Rows]:
    """The rows that each target has."""
    return {name: one if "one" in name else two for name in names}


def stored(world: EngineWorld, name: str) -> DataFrame:
    """The table of a target."""
    return world.spark.read.format("delta").load(world.path(name))


def shown(world: EngineWorld, names: tuple[str, ...]) -> dict[str, Rows]:
    """The rows of each target, with the interval at the end."""
    found = {}
    for name in names:
        rows = (row.asDict() for row in table_rows(world.spark, world.path(name), without="__sluice"))
        shown = (tuple(row[column] for column in sorted(row, key=INTERVAL.__contains__)) for row in rows)
        found[name] = sorted(shown, key=repr)
    return found


def vacuum(world: EngineWorld, names: tuple[str, ...]) -> None:
    """Delete the files that are not of the current versions of targets and of their auxiliary tables."""
    for path in (world.path(f"{prefix}{name}") for name in names for prefix in ("", AUXILIARY_PREFIX)):
        if Path(path).exists():
            delete_old_files(path)


def test_a_full_refresh_of_some_targets_rebuilds_them_and_leaves_the_others(world: EngineWorld) -> None:
    """A row put in by hand goes with the refresh and stays beside it; recorded deletes hold in both afterwards."""
    refreshed, beside = ("one", "two_merged"), ("beside_one_merged",)
    names = (*refreshed, *beside)
    declare = targets(world, *names, "events")
    world.feed([(1, "b", "U", 4), (2, None, "D", 4), (3, "c", "U", 4)], DDL)
    assert world.run(declare).state is UpdateState.COMPLETED
    for name in names:
        row = {"id": "9", "name": "'hand'"} | ({"__START_AT": "1"} if "two" in name else {})
        world.spark.sql(f"INSERT INTO delta.`{world.path(name)}` ({', '.join(row)}) VALUES ({', '.join(row.values())})")
    world.feed([(3, "d", "U", 5)], DDL)
    mixed = world.run(declare, full_refresh=list(refreshed), refresh=[*beside, "events"])
    assert mixed.state is UpdateState.COMPLETED
    one: Rows = [(1, "b"), (3, "d")]
    two: Rows = [(1, "a", 1, 4), (1, "b", 4, None), (2, "a", 1, 4), (3, "c", 4, 5), (3, "d", 5, None)]
    by_hand = (9, "hand")
    assert shown(world, names) == by_type(refreshed, one, two) | by_type(beside, [*one, by_hand], [])
    world.feed([(1, "late", "U", 2), (2, "late", "U", 3)], DDL)
    assert world.run(declare).state is UpdateState.COMPLETED
    two = [
        *((1, "a", 1, 2), (1, "b", 4, None), (1, "late", 2, 4), (2, "a", 1, 3), (2, "late", 3, 4)),
        *((3, "c", 4, 5), (3, "d", 5, None)),
    ]
    assert shown(world, names) == by_type(refreshed, one, two) | by_type(beside, [*one, by_hand], [])
    assert len(world.rows("events")) == len(set(world.rows("events"))) == 8
    assert world.run(declare).is_idle


def test_a_target_restored_to_fewer_columns_gets_them_again(world: EngineWorld) -> None:
    """Restored rows have nulls in the columns; a reset of the flows brings back the values that were undone.

    Until then the doctor names the restores. A VACUUM comes before the update: it reads the current version of a target
    and its auxiliary table only.
    """
    names = ("one_merged", "two")
    declare = targets(world, *names)
    world.run(declare)
    versions = {name: world.versions(name) - 1 for name in names}
    wide = f"{DDL}, city STRING"
    world.feed([(1, "b", "U", 2, "X"), (2, None, "D", 2, None), (3, "c", "U", 2, "Y")], wide)
    assert world.run(declare).state is UpdateState.COMPLETED
    for name in names:
        world.spark.sql(f"RESTORE TABLE delta.`{world.path(name)}` TO VERSION AS OF {versions[name]}")
    world.feed([(1, "d", "U", 4, "Z")], wide)
    vacuum(world, names)
    assert world.run(declare).state is UpdateState.COMPLETED
    one: Rows = [(1, "d", "Z"), (2, "a", None)]
    two: Rows = [(1, "a", None, 1, 4), (1, "d", "Z", 4, None), (2, "a", None, 1, None)]
    assert shown(world, names) == by_type(names, one, two)
    assert world.run(declare).is_idle
    assert [each.diagnosis.name for each in world.pipeline(declare).doctor.examine().findings] == ["TABLE_RESTORED"] * 2
    assert world.run(declare, reset_checkpoints=[f"into_{name}" for name in names]).state is UpdateState.COMPLETED
    one = [(1, "d", "Z"), (3, "c", "Y")]
    two = [
        *((1, "a", None, 1, 2), (1, "b", "X", 2, 4), (1, "d", "Z", 4, None), (2, "a", None, 1, 2)),
        (3, "c", "Y", 2, None),
    ]
    assert shown(world, names) == by_type(names, one, two)
    assert world.pipeline(declare).doctor.examine().findings == ()


def test_keys_of_a_source_with_char_columns_are_padded_as_spark_reads_them(world: EngineWorld) -> None:
    """CHAR keys that differ in trailing spaces are one key, VARCHAR keys are two; the target's columns are STRING."""
    shutil.rmtree(world.source())
    world.spark.sql(
        f"CREATE TABLE delta.`{world.source()}` (id CHAR(4), v VARCHAR(4), name STRING, op STRING, seq INT) USING delta"
    )

    def insert(values: str) -> None:
        world.spark.sql(f"INSERT INTO delta.`{world.source()}` VALUES {values}")

    names = ("one", "two_merged")
    declare = targets(world, *names, keys=("id", "v"))
    for values in (
        "('a', 'a', 'x', 'U', 1), ('a', 'a ', 'x', 'U', 1), ('b', 'b', 'x', 'U', 1)",
        "('a ', 'a', 'y', 'U', 2), ('b', 'b', NULL, 'D', 2), ('c', 'c', 'y', 'U', 2), ('b', 'b', 'late', 'U', 0)",
    ):
        insert(values)
        assert world.run(declare).state is UpdateState.COMPLETED
    one: Rows = [("a   ", "a ", "x"), ("a   ", "a", "y"), ("c   ", "c", "y")]
    two: Rows = [
        *(("a   ", "a ", "x", 1, None), ("a   ", "a", "x", 1, 2), ("a   ", "a", "y", 2, None)),
        *(("b   ", "b", "late", 0, 1), ("b   ", "b", "x", 1, 2), ("c   ", "c", "y", 2, None)),
    ]
    assert shown(world, names) == by_type(names, one, two)
    assert {str(stored(world, name).select("id", "v").schema.simpleString()) for name in names} == {
        "struct<id:string,v:string>"
    }
