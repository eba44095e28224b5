"""A rewind that lacks something is refused before anything is written, and the error says what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.checkpoints.rewinds import RewoundFlow, RewoundTable
from framework.engine.delta.restored_rows import RestoredRows
from framework.foundation.errors import SluiceError
from framework.graph.graph import DataflowGraph, Read
from framework.recovery.rewind.checks import Checks, Restored
from framework.recovery.rewind.plan import TableRewind
from framework.recovery.rewind.positions import Positions
from framework.recovery.rewind.tables import StoredTable
from framework.sources.port import SourceReference, SourceShape
from tests.support.fake_pipeline import name
from tests.support.rewind_world import ADDED, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table whose flow has three batches from files."""
    world = World(tmp_path, "orders", "loud")
    for batch in range(3):
        world.batch("orders", batch)
    return world


def checks(world: World, graph: DataflowGraph | None = None) -> Checks:
    """The checks over a world."""
    positions = Positions(pipeline="shop", storage=world.storage)
    return Checks(graph=graph or world.graph, store=world.store, positions=positions)


def rewound(world: World, batch: int | None, *, at_version: int) -> list[SluiceError]:
    """The errors of the flow into orders that continues after a batch."""
    table = StoredTable.of(world.graph.datasets[0], world.store)
    assert table is not None
    cut = world.cut("orders", at=table.history.time_ms(at_version))
    flow = world.graph.flow(name("orders"))
    assert flow is not None
    target = RewoundFlow(
        dataset=name("orders"), flow=name("orders"), before=1, generation=2, origin=1, batch=batch
    )  # fmt: skip
    return checks(world).of_flows([(flow, cut.position(flow), target)], {})


def test_a_checkpoint_that_spark_has_cleaned_names_the_earliest_time(world: World) -> None:
    """The error says what is gone, and when a rewind is possible again."""
    assert rewound(world, 0, at_version=1) == []
    world.storage.delete_tree(f"{world.generations.path(name('orders'), name('orders'), 1)}/offsets/0")
    (error,) = rewound(world, 0, at_version=1)
    assert error.condition == "REWIND_CHECKPOINT_GONE"
    assert (error.fields["missing"], error.fields["earliest"]) == (
        "the offsets of batch 0", "Its earliest time is 2026-01-01 00:00:06.000Z.",
    )  # fmt: skip


def test_a_source_that_may_forget_is_refused(world: World) -> None:
    """Files that are gone, and a source of a kind that does not promise to be read again."""
    path = world.generations.path(name("orders"), name("orders"), 1)
    gone = '{"path":"file:///no/such.json","timestamp":1,"batchId":2}'
    world.storage.write_text(f"{path}/sources/0/2", f"v1\n{gone}")
    (error,) = rewound(world, 0, at_version=1)
    assert (error.condition, error.fields["lost"]) == ("REWIND_SOURCE_GONE", "/no/such.json is gone")
    world.storage.write_text(f"{path}/offsets/0", 'v1\n{}\n{"of a custom source":1}')
    (error,) = rewound(world, 0, at_version=1)
    assert (error.condition, error.fields["kind"]) == ("REWIND_SOURCE_NOT_REREADABLE", "opaque")


def test_a_flow_that_starts_anew_needs_every_file_that_it_has_read(world: World) -> None:
    """Its rows are undone; nothing else reads files that are gone, or that a start of the code passes over now."""
    path = world.generations.path(name("orders"), name("orders"), 1)
    world.storage.write_text(f"{path}/sources/0/0", 'v1\n{"path":"file:///no/such.json","timestamp":1,"batchId":0}')
    (error,) = rewound(world, None, at_version=0)
    assert (error.condition, error.fields["lost"]) == ("REWIND_SOURCE_GONE", "/no/such.json is gone")
    world.storage.delete_tree(f"{path}/sources")
    assert rewound(world, None, at_version=0) == []
    for begins, is_refused in (("startingOffsets=latest", True), ("startingVersion=3", False)):
        source = SourceReference(kind="kafka", shape=SourceShape.STREAM, location="t", begins=begins)
        flows = tuple(replace(flow, sources=(source,)) for flow in world.graph.flows)
        world.graph = replace(world.graph, flows=flows)
        assert bool(rewound(world, None, at_version=0)) == is_refused


def test_a_flow_does_not_go_back_past_a_restore_alone(world: World) -> None:
    """An earlier rewind has undone commits of its source, which it would read; from a time after it, it reads none."""
    world.batch("loud", 0, orders=3)
    world.commit("orders", {"commitInfo": {"userMetadata": json.dumps({"sluice": {"rewind": "r", "flows": []}})}})
    world.batch("loud", 1, orders=5)
    flow = world.graph.flow(name("loud"))
    assert flow is not None
    table = StoredTable.of(world.graph.datasets[1], world.store)
    assert table is not None
    together: Restored = {"orders": name("orders")}
    alone: Restored = {}
    for version, restored, expected in ((1, alone, ["REWIND_PAST_RESTORE"]), (1, together, []), (2, alone, [])):
        position = world.cut("loud", at=table.history.time_ms(version)).position(flow)
        target = RewoundFlow(
            dataset=name("loud"), flow=name("loud"), before=1, generation=2, origin=1, batch=version - 1
        )  # fmt: skip
        errors = checks(world).of_flows([(flow, position, target)], restored)
        assert [error.condition for error in errors] == expected


def test_a_start_within_undone_versions_is_refused(world: World) -> None:
    """A flow that starts anew with a version of its code can't read a table that is restored."""
    flow = world.graph.flow(name("loud"))
    assert flow is not None
    started = Read(text="orders", streaming=True, dataset=name("orders"), options=(("startingVersion", "0"),))
    target = RewoundFlow(dataset=name("loud"), flow=name("loud"), before=1, generation=2, origin=1, batch=None)
    for reads, expected in (((started,), ["REWIND_START_IN_RESTORED_TABLE"]), ((replace(started, options=()),), [])):
        found = (replace(flow, reads=reads), world.cut().position(flow), target)
        assert [error.condition for error in checks(world).of_flows([found], {"orders": name("orders")})] == expected


def test_tables_that_cannot_go_back_are_named(world: World) -> None:
    """Unfinished full refreshes, an append-only table, versions and files that are gone, and an undeclared flow."""
    tables = [table for each in world.graph.datasets if (table := StoredTable.of(each, world.store)) is not None]
    assert checks(world).of_tables(tables) == []
    for each in ("orders", "gone"):
        RebuildStore(world.storage).write(name(each), Rebuild(number=1))
    gone = replace(world.graph.datasets[0], spec=replace(world.graph.datasets[0].spec, name=name("gone")))
    more = replace(checks(world), graph=replace(world.graph, datasets=(*world.graph.datasets, gone)))
    errors = more.of_rebuilds([each.name for each in more.graph.datasets])
    assert [(error.condition, error.fields["dataset"]) for error in errors] == [
        ("REWIND_DURING_FULL_REFRESH", name(each)) for each in ("orders", "gone")
    ]
    world.commit("loud", {"metaData": {"id": "loud", "configuration": {"delta.appendOnly": "true"}}})
    assert [error.condition for error in checks(world).of_tables(tables)] == ["REWIND_OF_APPEND_ONLY_TABLE"]
    target = RewoundTable(dataset=name("orders"), path=tables[0].path, table_id="orders", before=3, version=1)
    found = TableRewind(table=target, auxiliary=None, time_ms=0, rows=RestoredRows(before=3, after=1))
    assert checks(world).of_versions([found]) == []
    undeclared = replace(world.graph, flows=())
    conditions = [
        [error.condition for error in checks(world, graph).of_versions([each])]
        for graph, each in (
            (world.graph, replace(found, rows=None)),
            (world.graph, replace(found, rows=RestoredRows(before=3, after=1, missing=("/gone",)))),
            (undeclared, found),
        )
    ]
    assert conditions == [["REWIND_VERSION_GONE"], ["REWIND_FILES_GONE"], ["REWIND_FLOW_NOT_DECLARED"]]


def test_a_version_that_a_view_wrote_is_refused(world: World) -> None:
    """No flow has a position in its rows; those of a later batch are in the table with their flow's position."""
    table = StoredTable.of(world.graph.datasets[0], world.store)
    assert table is not None
    mark = json.dumps({"sluice": {"computed_from": None}})
    written = world.commit("orders", {"commitInfo": {"userMetadata": mark}}, ADDED)
    later = world.batch("orders", 7)
    conditions = []
    for version in (written, later):
        target = RewoundTable(
            dataset=name("orders"), path=table.path, table_id="orders", before=later + 1, version=version
        )
        found = TableRewind(table=target, auxiliary=None, time_ms=0, rows=RestoredRows(before=3, after=1))
        conditions.append([error.condition for error in checks(world).of_versions([found])])
    assert conditions == [["REWIND_OF_FORMER_VIEW"], []]
