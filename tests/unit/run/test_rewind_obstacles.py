"""What a rewind that was interrupted lacks, from Delta logs and checkpoints that no Spark ever wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.rewinds import RewindStore, RewoundFlow, RewoundTable, StoredRewind
from framework.declare.specs import DatasetSpec
from framework.foundation.errors import OperationError
from framework.run.update.rewind_refusals import check_no_rewind, obstacles
from tests.support.fake_pipeline import name
from tests.support.rewind_world import ADDED, TABLE, World

ORDERS = name("orders")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table with two batches."""
    world = World(tmp_path, "orders")
    for number in (0, 1):
        world.batch("orders", number)
    return world


def folder(world: World) -> Path:
    """The table's folder."""
    return Path(world.store.path(DatasetSpec(name=ORDERS, kind=TABLE)))


def rewind_of(world: World) -> StoredRewind:
    """A rewind of the table to before its first batch, and of its flow to after that."""
    table = RewoundTable(dataset=ORDERS, path=str(folder(world)), table_id="orders", before=2, version=None)
    flow = RewoundFlow(dataset=ORDERS, flow=ORDERS, before=1, generation=2, origin=1, batch=0)
    return StoredRewind(rewind_id="r", to="then", begun_at="now", user=None, why="", tables=(table,), flows=(flow,))


def delete_table(world: World) -> None:
    """Nothing is at its place."""
    shutil.rmtree(folder(world))


def replace_table(world: World) -> None:
    """Another table is at its place."""
    shutil.rmtree(folder(world))
    world.versions.clear()
    world.commit("orders", {"metaData": {"id": "another", "configuration": {}}})


def put_older_copy_back(world: World) -> None:
    """The table has lost its last version."""
    max((folder(world) / "_delta_log").iterdir()).unlink()


def delete_offsets(world: World) -> None:
    """The checkpoint has lost the batch that the flow continues after."""
    Path(world.generations.path(ORDERS, ORDERS, 1), "offsets", "0").unlink()


@pytest.mark.parametrize(
    ("lose", "problem"),
    [
        (delete_table, "there is no table at "),
        (replace_table, "another table is at "),
        (put_older_copy_back, "an older copy is at "),
        (delete_offsets, "the checkpoint of flow main.shop.orders no longer has the offsets of batch 0"),
    ],
)
def test_what_is_gone_since_is_an_obstacle(world: World, lose: Callable[[World], None], problem: str) -> None:
    """A table of another identity or with fewer versions can't be restored; a flow needs its offsets."""
    rewind = rewind_of(world)
    assert obstacles(world.store, rewind) == ()
    lose(world)
    (found,) = obstacles(world.store, rewind)
    assert (found.dataset, found.problem.startswith(problem)) == (ORDERS, True)
    RewindStore(world.storage).write(rewind)
    with pytest.raises(OperationError, match=f"REWIND_NOT_FINISHABLE.*main.shop.orders: {problem}"):
        check_no_rewind(world.store)


def test_what_is_done_needs_nothing_any_more(world: World) -> None:
    """A restored table may lose its old versions, and a flow with its new generation its old checkpoint."""
    rewind = rewind_of(world)
    version = replace(rewind.tables[0], version=1)
    mark = json.dumps({"sluice": {"rewind": "r", "flows": []}})
    world.commit("orders", {"commitInfo": {"userMetadata": mark}}, ADDED)
    delete_offsets(world)
    world.generations.adopt(ORDERS, ORDERS, 2, reason="", start=None, after_batch=0, rewound_to=1)
    assert obstacles(world.store, replace(rewind, tables=(version,))) == ()
    RewindStore(world.storage).write(rewind)
    with pytest.raises(OperationError, match="REWIND_UNFINISHED"):
        check_no_rewind(world.store)
    RewindStore(world.storage).delete()
    check_no_rewind(world.store)
