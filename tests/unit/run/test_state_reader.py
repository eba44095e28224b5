"""What the plan is told of a flow's checkpoint, read without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from framework.checkpoints.table_marks import read_mark, write_mark
from framework.declare.specs import DatasetKind
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphFlow, Read
from framework.plan.foretelling import foretell
from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.state import FlowState, StoredState, TableKind, TableState
from framework.plan.steps import RefuseTable, RunFlow
from framework.run.flows.flow_runner import FlowRunner
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.marked_tables import mark_table
from framework.run.tables.table_record import TableRecord, write_record
from framework.run.update.checkpoint_actions import reset_checkpoint, roll_back_checkpoint
from framework.sources.cloud_files.source import MARK
from framework.sources.kinds import recognized
from framework.sources.port import SourceReference, SourceShape, StreamingRelation
from tests.support.fake_pipeline import name
from tests.support.rewind_world import ADDED, COMPACTED, World, taken

if TYPE_CHECKING:
    from framework.declare.specs import AutoCdcSpec
    from framework.run.flows.flow_run import FlowContext


def stored(world: World) -> FlowState:
    """The state of the only flow."""
    (flow,) = world.graph.flows
    return StateReader(graph=world.graph, store=world.store).flow_state(flow)


def run_of(world: World, *reset: QualifiedName) -> RunFlow:
    """How an update would run the only flow."""
    (dataset,), (flow,) = world.graph.datasets, world.graph.flows
    table = TableState(exists=True, definition="")
    state = StoredState(tables={dataset.name: table}, flows={flow.spec.name: stored(world)})
    plan = make_plan(world.graph, UpdateRequest(reset_checkpoints=reset), state)
    (step,) = (step for step in plan.steps if isinstance(step, RunFlow))
    return step


def test_a_roll_back_repeats_rows_once_the_next_generation_has_put_some_into_the_table(tmp_path: Path) -> None:
    """An open batch counts if the table has it; a target of AUTO CDC takes a row twice without a change."""
    world = World(tmp_path, "t")
    world.batch("t", 0)
    assert (stored(world).has_kept, stored(world).repeats) == (False, False)
    world.begin("t")
    assert (stored(world).has_kept, stored(world).repeats) == (True, False)
    path = world.generations.path(name("t"), name("t"), 2)
    world.storage.write_text(f"{path}/offsets/0", 'v1\n{}\n{"logOffset":1}')
    world.storage.write_text(f"{path}/sources/0/1.compact", "v1")
    assert (stored(world).has_kept, stored(world).repeats) == (True, False)
    world.batch("t", 0, generation=2)
    assert (stored(world).has_kept, stored(world).repeats) == (True, True)
    applied = World(tmp_path / "cdc", "t", cdc=True)
    applied.batch("t", 0)
    applied.begin("t")
    applied.batch("t", 0, generation=2)
    assert (stored(applied).has_kept, stored(applied).repeats) == (True, False)


def test_a_table_is_the_same_source_by_name_and_by_path(tmp_path: Path) -> None:
    """So two reads of it have no order, and a read of it keeps the place of the other one."""
    world = World(tmp_path, "t", "u")
    world.batch("t", 0)
    (dataset, _), (flow, _) = world.graph.datasets, world.graph.flows
    by_name, by_path = f"{name('u')} (table)", f"{world.store.layout.table(name('u'))} (delta)"
    world.generations.started(dataset.name, flow.spec.name, 1, "q", sources=(by_name, by_path, "/a (files)"))
    reader = StateReader(graph=world.graph, store=world.store)

    def misplaced(*sources: str) -> tuple[str, str] | None:
        return reader.flow_state(replace(flow, source_names=sources)).misplaced

    assert misplaced(by_path, by_name, "/a (files)") is None
    assert misplaced(by_path, "/a (files)", by_name) == ("/a (files)", by_path)


def test_a_table_has_rows_of_flows_that_no_longer_write_to_it(tmp_path: Path) -> None:
    """Before the first run all of them count, later those that ran since; one without a batch in the table does not."""
    world = World(tmp_path, "t")

    def planned(flow: str, batch: int, minute: int, *, is_taken: bool = True) -> None:
        generations = world.generations
        if generations.current(name("t"), name(flow)) is None:
            generations.begin(name("t"), name(flow), reason="")
        path = generations.path(name("t"), name(flow), 1)
        world.storage.write_text(f"{path}/metadata", f'{{"id": "{flow}"}}')
        offsets = f'v1\n{{"batchTimestampMs":{minute * 60_000}}}\n{{"logOffset":1}}'
        world.storage.write_text(f"{path}/offsets/{batch}", offsets)
        if is_taken:
            world.commit("t", {"txn": {"appId": flow, "version": batch}})
            world.storage.write_text(f"{path}/commits/{batch}", "v1\n{}")

    def former() -> list[str]:
        return [each.table for each in stored(world).former]

    planned("early", 0, minute=1)
    planned("empty", 0, minute=9, is_taken=False)
    assert former() == ["early"]
    world.generations.retire(name("t"), name("t"), "rewind")
    assert former() == ["early"]
    world.generations.begin(name("t"), name("t"), reason="")
    path = world.generations.path(name("t"), name("t"), 2)
    world.storage.write_text(f"{path}/offsets/0", 'v1\n{"batchTimestampMs":120000}\n{"logOffset":1}')
    world.storage.write_text(f"{path}/sources/0/1.compact", "v1")
    assert former() == []
    planned("late", 0, minute=3)
    assert former() == ["late"]
    world.generations.retire(name("t"), name("late"), "full refresh")
    assert former() == []
    (flow,) = world.graph.flows
    again = replace(flow, spec=replace(flow.spec, name=name("again")))
    world.graph = replace(world.graph, flows=(again,))
    assert former() == ["early", "t"]


def test_a_checkpoint_that_lacks_batches_of_its_table_is_deleted_or_old(tmp_path: Path) -> None:
    """Its next batches would have numbers that the table has, and be skipped: also in a sink, and after old commits."""
    world = World(tmp_path, "t")
    for number in range(2):
        world.batch("t", number)
    assert not stored(world).deleted
    newest = world.generations.path(name("t"), name("t"), 1)
    world.storage.delete_tree(f"{newest}/offsets/1")
    assert stored(world).deleted
    (dataset,), log = world.graph.datasets, tmp_path / "tables/main/sales/t/_delta_log"
    folder = log.parent if log.exists() else next(tmp_path.rglob("_delta_log")).parent
    sink = replace(dataset.spec, kind=DatasetKind.SINK, format="delta", options=(("path", str(folder)),))
    before = world.graph
    world.graph = replace(before, datasets=(replace(dataset, spec=sink, kind=DatasetKind.SINK),))
    assert stored(world).deleted
    own = replace(sink, options=(*sink.options, ("txnAppId", "mine")))
    world.graph = replace(before, datasets=(replace(dataset, spec=own, kind=DatasetKind.SINK),))
    assert not stored(world).deleted
    world.graph = before

    world.generations.started(name("t"), name("t"), 1, "t 1")
    world.storage.delete_tree(newest)
    assert stored(world).deleted
    for version in range(3):
        (folder / "_delta_log" / f"{version:020d}.json").unlink()
    world.commit("t", {"txn": {"appId": "another", "version": 7}})
    assert stored(world).deleted
    checksum = {"metadata": {"id": "t"}, "setTransactions": [{"appId": "another", "version": 7}]}
    world.storage.write_text(f"{folder}/_delta_log/{3:020d}.crc", json.dumps(checksum))
    assert not stored(world).deleted


def test_an_auto_cdc_flow_that_begins_with_new_rows_only_does_not_begin_again_by_itself(tmp_path: Path) -> None:
    """It would pass over what has come unread since its last batch; one that reads everything takes all of it again."""
    world = World(tmp_path, "t", cdc=True)
    world.commit("t", {"txn": {"appId": f"sluice:shop:{name('t')}:1", "version": 0}})
    (dataset,), (flow,) = world.graph.datasets, world.graph.flows
    flow = replace(flow, spec=replace(flow.spec, cdc=cast("AutoCdcSpec", object())))

    def planned(flow: GraphFlow) -> tuple[str, bool]:
        world.graph = replace(world.graph, flows=(flow,))
        step = run_of(world)
        return step.reason, step.broken is not None

    options = {"cloudfiles.format": "json", "cloudfiles.includeexistingfiles": "FALSE"}
    mark = json.dumps({"path": "/in", "has_schema": True, "options": options})
    files = recognized(StreamingRelation(format="json", options={MARK: mark}))
    topic = SourceReference(kind="kafka", shape=SourceShape.STREAM, begins='startingOffsets={"a":{"0":5,"1":-1}}')
    table = Read(text="/in", streaming=True, options=(("startingVersion", "latest"),))
    late = ("its checkpoint does not fit its query", True)
    assert planned(replace(flow, sources=(files,))) == late
    assert planned(replace(flow, sources=(topic,))) == late
    assert planned(replace(flow, reads=(table,))) == late
    (found,) = (foretell(dataset, each, stored(world)) for each in world.graph.flows)
    assert found is not None
    assert "would pass over unread ones" in found.problem
    everything = replace(table, options=(("startingVersion", "3"),))
    assert planned(replace(flow, reads=(everything,))) == ("files of its checkpoint were deleted", False)

    world.storage.delete_tree(f"{world.storage.root}/checkpoints")  # with the manifest
    assert planned(replace(flow, reads=(table,))) == late
    (found,) = (foretell(dataset, each, stored(world)) for each in world.graph.flows)
    assert found is not None
    assert "A first run would pass over rows" in found.problem
    assert planned(replace(flow, reads=(everything,))) == ("first run", False)


def test_a_flow_that_began_with_new_rows_only_does_not_lose_its_start(tmp_path: Path) -> None:
    """Without a batch, its place was in the checkpoint, or is in the manifest. A first run says what it reads."""
    world = World(tmp_path, "t", cdc=True)
    (flow,) = world.graph.flows
    table = Read(text="/in", streaming=True, options=(("startingVersion", "latest"),))
    changes = replace(flow, spec=replace(flow.spec, cdc=cast("AutoCdcSpec", object())))

    def planned(flow: GraphFlow, *, everything: bool = False) -> tuple[str, bool]:
        reads = (replace(table, options=()) if everything else table,)
        world.graph = replace(world.graph, flows=(replace(flow, reads=reads),))
        step = run_of(world)
        return step.reason, step.broken is not None

    checkpoint = world.generations.path(name("t"), name("t"), 1)
    new, gone = "its sources may have new rows", "its checkpoint does not fit its query"
    assert planned(changes) == (new, False)  # it has not started
    world.generations.started(name("t"), name("t"), 1, "t 1")
    assert planned(changes) == (new, False)
    world.storage.delete_tree(checkpoint)
    for each in (changes, flow):
        assert (planned(each), planned(each, everything=True)) == ((gone, True), (new, False))
    world.storage.delete_tree(world.storage.path("checkpoints"))  # with the manifest: as for a flow that is new
    late = "first run; its query begins with new rows only"
    assert (planned(changes), planned(changes, everything=True)) == ((late, False), ("first run", False))
    for number, start in ((1, "startingVersion=3"), (2, "latest")):
        world.generations.begin(name("t"), name("t"), reason="", start=json.dumps({"/in": start}))
        world.generations.started(name("t"), name("t"), number, "t")
        expected = (gone, True) if start == "latest" else (new, False)
        assert (planned(changes), planned(changes, everything=True)) == (expected, expected)


def test_a_reset_to_a_start_is_not_forgotten_with_its_checkpoint(tmp_path: Path) -> None:
    """An AUTO CDC flow would read the events from before its start, which nobody asked for."""
    world = World(tmp_path, "t", cdc=True)
    (flow,) = world.graph.flows
    reads = (Read(text="/in", streaming=True),)
    changes = replace(flow, reads=reads, spec=replace(flow.spec, cdc=cast("AutoCdcSpec", object())))
    world.graph = replace(world.graph, flows=(changes,))
    world.generations.begin(name("t"), name("t"), reason="", start='{"/in": "startingVersion=3"}')
    world.commit("t", {"txn": {"appId": f"sluice:shop:{name('t')}:2", "version": 0}})
    step = run_of(world)
    assert step.broken is not None
    assert "or read earlier ones" in step.broken.problem
    assert run_of(world, name("t")).broken is None


def test_a_first_run_into_a_table_with_rows_of_an_unknown_stream_is_foretold(tmp_path: Path) -> None:
    """Its checkpoint was deleted with the manifest, or has another name or storage: a reset appends the rows again."""
    world = World(tmp_path, "t")
    folder = world.store.path(world.graph.datasets[0].spec)
    query = "01234567-89ab-cdef-0123-456789abcdef"
    taken = {"appId": query, "version": 3, "lastUpdated": 1}
    checksum = {"metadata": {"id": "t"}, "setTransactions": [taken]}
    world.storage.write_text(f"{folder}/_delta_log/{0:020d}.crc", json.dumps(checksum))
    world.generations.started(name("t"), name("t"), 1, query)
    world.generations.retire(name("t"), name("t"), "rewind")
    assert run_of(world).broken is None
    world.storage.delete_tree(world.storage.path("checkpoints"))
    found = run_of(world).broken
    assert found is not None
    assert found.condition == "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    assert "sluice run --reset-checkpoint main.shop.t" in found.ways
    reset = run_of(world, name("t"))
    twice = "t has rows of a flow whose checkpoint is not here: what both read is there twice"
    assert (reset.broken, reset.reason) == (None, f"first run; {twice}")


def test_a_roll_back_does_not_forget_how_far_the_table_had_come(tmp_path: Path) -> None:
    """An older copy of the table is named also before the flow has run again; a reset goes on in it."""
    world = World(tmp_path, "t")
    t, path = name("t"), world.store.path(world.graph.datasets[0].spec)
    world.batch("t", 0)
    world.begin("t")
    last = world.commit("t", COMPACTED)
    mark_table(world.storage, path, t, t, 2)
    assert roll_back_checkpoint(world.storage, "shop", "t")[1].number == 1
    assert run_of(world).broken is None
    Path(path, "_delta_log", f"{last:020d}.json").unlink()
    found = run_of(world).broken
    assert found is not None
    assert found.condition == "TABLE_OLDER_THAN_CHECKPOINT"
    assert run_of(world, t).broken is None

    record = TableRecord(
        dataset=t, path=path, table_id="t", pipeline="shop", definition="", schema="{}",
        kind=TableKind.STREAMING_TABLE,
    )  # fmt: skip
    write_record(world.storage, world.store.layout, record)
    reset_checkpoint(world.storage, "shop", "t")
    assert run_of(world).broken is None
    Path(path, "_delta_log", f"{last - 1:020d}.json").unlink()
    assert run_of(world).broken is not None
    mark = read_mark(world.storage, t, t)
    assert mark is not None
    write_mark(world.storage, t, t, replace(mark, created=1))
    world.versions["t"] = last - 2
    for _ in range(25):  # by a writer without checksum files: the id of the table is not in the last commits
        world.commit("t", COMPACTED)
    assert run_of(world).broken is None


@pytest.mark.parametrize(
    ("folder", "partition", "clause"),
    [
        ("tables/main/shop/__sluice_cdc_t", "", "has an auxiliary table ({}) that is "),
        ("quarantine", "flow=main.shop.t", "has rows in a quarantine ({}) that is "),
        ("quarantine", "flow=main.shop.other", ""),
    ],
    ids=["auxiliary table", "quarantine", "quarantine without rows of the flow"],
)
def test_an_older_copy_of_what_belongs_to_a_table_is_named(
    tmp_path: Path, folder: str, partition: str, clause: str
) -> None:
    """Recorded deletes or quarantined rows are gone from it; a reset reads them again."""
    world = World(tmp_path, "t")
    t, path = name("t"), world.store.path(world.graph.datasets[0].spec)
    world.batch("t", 0)
    commits = [world.storage.path(folder, "_delta_log", f"{version:020d}.json") for version in range(3)]
    for commit in (*commits, world.storage.path(folder, partition, "file.parquet")):
        world.storage.write_text(commit, "")
    mark_table(world.storage, path, t, t, 1)
    assert run_of(world).broken is None
    for commits_left, now in ((2, "at version 1"), (0, "gone")):
        for commit in commits[commits_left:]:
            world.storage.delete_tree(commit)
        broken = run_of(world).broken
        found = "" if broken is None else broken.problem.partition(", and was")[0]
        assert found == (clause and f"t {clause.format(world.storage.path(folder))}{now}")
    assert run_of(world, t).broken is None


def test_a_single_run_over_a_batch_is_not_repeated_by_an_older_checkpoint(tmp_path: Path) -> None:
    """Its table has rows of a generation that the manifest does not have, or of one without a manifest."""
    world = World(tmp_path, "t")
    (flow,) = world.graph.flows
    once = replace(flow, streaming=False, spec=replace(flow.spec, once=True))
    world.graph = replace(world.graph, flows=(once,))
    world.storage.delete_tree(world.generations.path(name("t"), name("t"), 1))
    log = f"{world.store.path(world.graph.datasets[0].spec)}/_delta_log"

    def take(*generations: int) -> None:
        batches = [taken(f"sluice:shop:{name('t')}:{each}", each)["txn"] for each in generations]
        checksum = {"metadata": {"id": "t"}, "setTransactions": batches}
        world.storage.write_text(f"{log}/{world.commit('t', ADDED):020d}.crc", json.dumps(checksum))

    take(1)
    assert run_of(world).broken is None  # the kill was before the generation was marked as completed
    take(1, 2)
    for folder in ("nothing", "checkpoints"):
        world.storage.delete_tree(world.storage.path(folder))
        found = run_of(world).broken
        assert found is not None
        assert found.condition == "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
        assert run_of(world, name("t")).generation == 3


def test_a_flow_that_runs_for_long_marks_its_table_now_and_then(tmp_path: Path) -> None:
    """It may be killed after weeks; then an older copy of its table is not written to."""
    world = World(tmp_path, "t")
    (dataset,), t = world.graph.datasets, name("t")
    context = cast(
        "FlowContext",
        SimpleNamespace(
            store=world.store,
            clock=world.clock,
            graph=world.graph,
            state=StateReader(graph=world.graph, store=world.store),
        ),
    )
    step = RunFlow(flow=t, dataset=t, generation=1, after=(), reason="")
    committed = FlowRunner(context=context)._marking(step, dataset, lambda *_: None)
    marks = []
    for seconds in (59, 1, 59, 1):
        version = world.commit("t", COMPACTED)
        world.clock.sleep(seconds - 1)  # the commit took a second
        committed(FlowOutcome(), None)
        mark = read_mark(world.storage, t, t)
        marks.append(None if mark is None else version - mark.version)
    assert marks == [None, 0, 1, 0]


def test_a_sink_belongs_to_the_pipeline_that_wrote_to_it(tmp_path: Path) -> None:
    """Another one with a sink of that name would go on at its checkpoint, behind rows that it never wrote."""
    world = World(tmp_path, "t")
    (dataset,) = world.graph.datasets
    options = (("path", "/out"),)
    sink = replace(dataset.spec, kind=DatasetKind.SINK, format="delta", options=options)
    world.graph = replace(world.graph, datasets=(replace(dataset, spec=sink, kind=DatasetKind.SINK),))

    def refused(pipeline: str) -> list[str | None]:
        graph = replace(world.graph, pipeline=pipeline)
        state = StateReader(graph=graph, store=replace(world.store, pipeline=pipeline)).read()
        plan = make_plan(graph, UpdateRequest(), state)
        return [step.owner for step in plan.steps if isinstance(step, RefuseTable)]

    assert refused("other") == []  # a checkpoint whose stream has never started
    world.generations.started(name("t"), name("t"), 1, "t 1", owner="shop")
    assert (refused("shop"), refused("other")) == ([], ["pipeline shop"])
    world.begin("t")
    assert refused("other") == ["pipeline shop"]
    for change in (reset_checkpoint, roll_back_checkpoint):
        with pytest.raises(OperationError, match="TABLE_NOT_OWNED"):
            change(world.storage, "other", "t")
    assert roll_back_checkpoint(world.storage, "shop", "t")[1].number == 1
    assert reset_checkpoint(world.storage, "shop", "t")[0].owner == "shop"
