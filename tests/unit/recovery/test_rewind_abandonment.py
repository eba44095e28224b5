"""What becomes of an interrupted rewind that is given up, from Delta logs that no Spark ever wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.rewinds import RewoundFlow, RewoundTable, StoredRewind
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.state import TableKind
from framework.recovery.rewind.abandonment import abandonment_of
from framework.run.flows.state.generation_numbers import rewind_application
from framework.run.tables.table_record import TableRecord, write_record
from tests.support.fake_pipeline import name
from tests.support.rewind_world import ADDED, TABLE, World, taken


@pytest.fixture
def begun(tmp_path: Path) -> tuple[World, StoredRewind]:
    """A rewind of two tables, of which the first is restored, and the second is gone."""
    world = World(tmp_path, "orders", "loud")
    mark = json.dumps({"sluice": {"rewind": "r", "flows": []}})
    world.commit("orders", {"commitInfo": {"userMetadata": mark}}, ADDED)
    tables = tuple(
        RewoundTable(dataset=name(each), path=path_of(world, each), table_id=each, before=0, version=None)
        for each in ("orders", "loud")
    )
    for file in Path(path_of(world, "loud"), "_delta_log").iterdir():
        file.unlink()
    return world, StoredRewind(rewind_id="r", to="then", begun_at="now", user=None, why="", tables=tables, flows=())


def path_of(world: World, table: str) -> str:
    """The folder of a table."""
    return world.store.path(DatasetSpec(name=name(table), kind=TABLE))


def refreshed(world: World, graph: DataflowGraph, rewind: StoredRewind) -> tuple[QualifiedName, ...] | None:
    """The tables that are fully refreshed; None if nothing is done."""
    rest = abandonment_of(graph, world.store, rewind).rest
    return None if rest is None else rest.refreshed


def record(world: World, pipeline: str, kind: TableKind) -> None:
    """Record the second table."""
    path, layout = path_of(world, "loud"), world.store.layout
    found = TableRecord(dataset=name("loud"), path=path, definition="", schema="{}", pipeline=pipeline, kind=kind)
    write_record(world.storage, layout, found)


def test_what_is_done_decides_what_is_left_to_do(begun: tuple[World, StoredRewind]) -> None:
    """Nothing if no table is restored; with one, or with tables given up before, the rest is done.

    The checkpoint of a table that names its new generations does not go on any more, so it goes back.
    """
    world, rewind = begun
    assert refreshed(world, world.graph, rewind) == (name("loud"),)
    untouched = replace(rewind, rewind_id="other")
    assert refreshed(world, world.graph, untouched) is None
    again = replace(untouched, tables=untouched.tables[:1], refreshed=(name("loud"),))
    assert refreshed(world, world.graph, again) == (name("loud"),)
    assert refreshed(world, world.graph, replace(rewind, tables=())) == ()
    flow = RewoundFlow(dataset=name("orders"), flow=name("orders"), before=1, generation=2, origin=1, batch=None)
    named = replace(untouched, flows=(flow,))
    assert refreshed(world, world.graph, named) is None
    names = taken(rewind_application(name("orders")), 2)
    checksum = Path(path_of(world, "orders"), "_delta_log", f"{world.commit('orders', names):020d}.crc")
    checksum.write_text(json.dumps({"metadata": {"id": "orders"}, "setTransactions": [names["txn"]]}))
    assert refreshed(world, world.graph, named) == (name("loud"),)


def test_a_table_that_no_full_refresh_may_clear_is_not_given_up(begun: tuple[World, StoredRewind]) -> None:
    """The error is that of a full refresh, and nothing is decided."""
    world, rewind = begun
    kept = (("pipelines.reset.allowed", "false"),)
    datasets = tuple(
        replace(each, spec=replace(each.spec, table_properties=kept)) if each.name == name("loud") else each
        for each in world.graph.datasets
    )
    with pytest.raises(SluiceError, match=r"TABLE_NOT_RESETTABLE.*main\.shop\.loud"):
        refreshed(world, replace(world.graph, datasets=datasets), rewind)


def test_tables_that_are_not_declared_any_more(begun: tuple[World, StoredRewind]) -> None:
    """A streaming table is refreshed if it is declared again; not a view; another pipeline gives up its own tables."""
    world, rewind = begun
    fewer = replace(world.graph, datasets=world.graph.datasets[:1], flows=world.graph.flows[:1])
    assert refreshed(world, fewer, rewind) == (name("loud"),)
    record(world, "shop", TableKind.MATERIALIZED_VIEW)
    assert refreshed(world, fewer, rewind) == ()
    view = tuple(replace(each, kind=DatasetKind.MATERIALIZED_VIEW) for each in world.graph.datasets[1:])
    declared = replace(world.graph, datasets=(*fewer.datasets, *view))
    assert refreshed(world, declared, rewind) == ()
    record(world, "other", TableKind.STREAMING_TABLE)
    with pytest.raises(OperationError, match=r"REWIND_OF_OTHER_PIPELINE.*main\.shop\.loud.*other"):
        refreshed(world, fewer, rewind)
