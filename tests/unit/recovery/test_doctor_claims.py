"""A way out never announces "none" where rows are lost or repeated; where the number can't be known, it says why."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.operators import StatefulOperator
from framework.declare.specs import FlowSpec
from framework.graph.graph import DataflowGraph
from framework.recovery.doctor.finding import Finding
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.offsets import log_folder, offset_text
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.source import CloudFilesSource
from framework.sources.delta.source import DeltaSource
from framework.sources.kafka.source import KafkaSource
from framework.sources.port import SourceReference, SourceShape, StreamingRelation, StreamingSource
from framework.views.doctor import cost_text
from tests.support.fake_pipeline import name
from tests.support.hand_written_world import DELETE, EMPTY_STATE, HandWrittenWorld, added

CHANGED = "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Flow main.shop.{} cannot continue: Rows were changed.\n  -> Ways."
REMOVED = {"remove": {"path": "a", "dataChange": True}}


@pytest.fixture
def world(tmp_path: Path) -> HandWrittenWorld:
    """One flow, which has read the first commit of its source."""
    return HandWrittenWorld(tmp_path, ["orders"])


def cost(world: HandWrittenWorld, way: str) -> str:
    """The cost of a way out of the only finding."""
    return next(cost_text(each.cost) for each in finding(world).ways if each.way.name == way)


def finding(world: HandWrittenWorld) -> Finding:
    """The only finding."""
    (found,) = world.examine("orders").findings
    return found


def changed(world: HandWrittenWorld, **flow: Any) -> None:
    """Change the flow of the graph."""
    (before,) = world.graph.flows
    world.graph = DataflowGraph(
        pipeline="shop", datasets=world.graph.datasets, flows=(replace(before, **flow),)
    )  # fmt: skip


def damage(world: HandWrittenWorld) -> None:
    """Damage the checkpoint, so that it can't continue, but its position is known."""
    (world.path("orders") / "metadata").unlink()


@pytest.mark.parametrize(
    ("operation", "metrics", "lost"),
    [
        ("DELETE", {}, "2 rows"),
        ("UPDATE", {"numUpdatedRows": "1"}, "3 rows"),
        ("MERGE", {"numTargetRowsInserted": "5", "numTargetRowsUpdated": "1"}, "8 rows"),
        ("WRITE", {"numOutputRows": "9"}, "at most 11 rows"),
        ("MERGE", {}, "at most 11 rows"),
    ],
)
def test_rows_in_the_commit_that_is_passed_over_are_lost(
    world: HandWrittenWorld, operation: str, metrics: dict[str, str], lost: str
) -> None:
    """A MERGE inserts rows, and an UPDATE changes them; the rows that a commit only copies are not lost."""
    info = {"commitInfo": {"operation": operation, "operationMetrics": metrics}}
    world.commit("orders", 2, info, REMOVED, added("c", 9))
    world.fail("orders", CHANGED.format("orders"))
    assert cost(world, "RESET_AFTER_CHANGE") == (
        f"lost: {lost}: the change of version 2 is not applied; repeated: none; read again: none"
    )


def test_an_empty_state_loses_what_it_has_not_written_yet(world: HandWrittenWorld) -> None:
    """Every new checkpoint that does not read everything again has an empty state, not only one at the position."""
    info = {"operatorInfo": {"operatorName": "stateStoreSave"}, "stateStoreInfo": [{"numPartitions": 1}]}
    folder = world.path("orders") / "state/0"
    world.storage.write_text(str(folder / "_metadata/metadata"), f"v1\n{json.dumps(info)}")
    world.storage.write_text(str(folder / "0/1.delta"), EMPTY_STATE)
    changed(world, operators=(StatefulOperator(number=0, name="stateStoreSave"),))
    world.commit("orders", 2, DELETE, REMOVED)
    world.fail("orders", CHANGED.format("orders"))
    assert cost(world, "RESET_AFTER_CHANGE") == (
        "lost: unknown: the change of version 2 is not applied; what the state of an aggregation has not written yet; "
        "repeated: none; read again: none"
    )
    assert cost(world, "RESET_START").startswith("lost: none; repeated: at most 2 rows")


def test_a_table_that_was_created_again_has_lost_the_rows_of_the_first_one(world: HandWrittenWorld) -> None:
    """Its log is complete and removes nothing; the rows of the target are nevertheless of no table any more."""
    world.commit("orders", 0, {"metaData": {"id": "another", "configuration": {}}}, added("x", 3))
    path = f"{world.folder}/sources/orders"
    gone = f"lost: unknown: rows of the table that {path} has replaced"
    assert finding(world).diagnosis.name == "DELTA_SOURCE_REPLACED"
    assert cost(world, "RESET_START") == f"{gone}; repeated: at most 5 rows; read again: 5 rows"
    assert cost(world, "FULL_REFRESH") == f"{gone}; repeated: none; read again: 5 rows"


def test_rows_that_were_deleted_before_they_were_read_are_lost(world: HandWrittenWorld) -> None:
    """A start at the beginning reads the table as it is now."""
    world.commit("orders", 2, DELETE, {"remove": {"path": "b", "dataChange": True}})
    world.fail("orders", CHANGED.format("orders"))
    path = f"{world.folder}/sources/orders"
    assert cost(world, "RESET_START") == (
        f"lost: unknown: rows that were deleted from {path} before they were read; "
        "repeated: at most 3 rows; read again: 3 rows"
    )


@pytest.mark.parametrize(
    ("begins", "reset"),
    [("startingVersion=latest", True), ("startingTimestamp=2026-01-01", True), ("startingVersion=1", False)],
)
def test_code_that_begins_later_leaves_rows_out(world: HandWrittenWorld, begins: str, *, reset: bool) -> None:
    """A full refresh loses what the table has from before; a reset loses it if it is not read yet."""
    (read,) = world.graph.flows[0].reads
    changed(world, reads=(replace(read, begins=begins),))
    damage(world)
    path = f"{world.folder}/sources/orders"
    left = f"unknown: what {path} has from before `{begins}`, where the code begins"
    assert cost(world, "RESET_START") == (
        f"lost: {left if reset else 'none'}; repeated: at most 3 rows; read again: at most 5 rows"
    )
    assert cost(world, "FULL_REFRESH") == f"lost: {left}; repeated: none; read again: at most 5 rows"


def test_a_full_refresh_runs_once_flows_again_whose_source_may_be_gone(world: HandWrittenWorld) -> None:
    """A batch has no position and no log: what its source had then is unknown."""
    (flow,) = world.graph.flows
    once = replace(flow, spec=FlowSpec(name=name("old"), target=name("orders"), once=True), streaming=False, reads=())
    world.graph = replace(world.graph, flows=(flow, once))
    damage(world)
    unread = "unknown: what main.shop.old wrote and its source no longer has"
    assert cost(world, "FULL_REFRESH") == f"lost: {unread}; repeated: none; read again: {unread}"


def test_a_full_refresh_loses_the_rows_of_flows_that_are_no_longer_declared(world: HandWrittenWorld) -> None:
    """A backfill is taken out of the code when it has run; its rows are in the table."""
    GenerationStore(world.storage, world.clock).begin(name("orders"), name("backfill"), reason="first run")
    damage(world)
    lost = "unknown: the rows of main.shop.backfill, which the code no longer declares"
    assert cost(world, "FULL_REFRESH") == f"lost: {lost}; repeated: none; read again: 5 rows"


def test_only_a_custom_source_knows_where_it_begins(world: HandWrittenWorld) -> None:
    """A user-defined source may begin with its newest rows, as the connectors of most queues do."""
    source = SourceReference(kind="opaque", shape=SourceShape.STREAM, location="kinesis")
    changed(world, reads=(), sources=(source,))
    damage(world)
    begins = "lost: unknown: only the source knows where it begins (kinesis)"
    assert cost(world, "RESET_START").startswith(begins)


@pytest.mark.parametrize("first", [False, True])
def test_a_batch_that_the_target_has_and_the_checkpoint_has_not_is_repeated(
    world: HandWrittenWorld, *, first: bool
) -> None:
    """The process died between the commit of the table and that of the checkpoint; the first batch counts too."""
    path = world.path("orders")
    if first:
        (path / "commits/0").unlink()
    else:
        world.storage.write_text(str(path / "offsets/1"), (path / "offsets/0").read_text("utf-8"))
    world.storage.write_text(str(path / "state/0/0/_metadata/schema"), "")  # the damage
    assert "written and not committed" not in cost(world, "RESET_START")
    table = Path(world.storage.root) / "tables/main/shop/orders/_delta_log" / f"{1:020d}.json"
    batch = {"txn": {"appId": "q", "version": 0 if first else 1}}
    table.write_text(json.dumps(batch, separators=(",", ":")), "utf-8")
    assert "written and not committed" in cost(world, "RESET_START")
    actions = (json.dumps(action, separators=(",", ":")) for action in (batch, added("c", 2)))
    table.write_text("\n".join(actions), "utf-8")
    repeated = "at most 7 rows" if first else "5 rows"
    assert f"repeated: {repeated}: including those of the batch that was written and not" in cost(world, "RESET_START")


def test_batches_that_only_the_table_has_are_repeated(world: HandWrittenWorld) -> None:
    """An older copy of the checkpoint is in its place: a restart where it ends reads later batches a second time."""
    assert world.examine("orders").findings == ()
    table = Path(world.storage.root) / "tables/main/shop/orders/_delta_log" / f"{1:020d}.json"
    actions = ({"txn": {"appId": "q", "version": 5}}, added("c", 2))
    table.write_text("\n".join(json.dumps(action, separators=(",", ":")) for action in actions), "utf-8")
    again = "repeated: 2 rows: including those of batches that the table has and the checkpoint has not"
    assert (finding(world).condition, again in cost(world, "RESET_HERE")) == (
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE", True
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "format_", "options", "begins"),
    [
        (DeltaSource(), "delta", {"startingversion": "latest"}, "startingVersion=latest"),
        (DeltaSource(), "delta", {"startingtimestamp": "2026-01-01"}, "startingTimestamp=2026-01-01"),
        (DeltaSource(), "delta", {"skipchangecommits": "true"}, ""),
        (KafkaSource(), "kafka", {"startingoffsets": "earliest"}, ""),
        (KafkaSource(), "kafka", {}, "startingOffsets=latest"),
        (KafkaSource(), "kafka", {"startingtimestamp": "7", "startingoffsets": "earliest"}, "startingTimestamp=7"),
        (CloudFilesSource(), "x", {"modifiedafter": "2026-01-01T00:00:00Z"}, "modifiedAfter=2026-01-01T00:00:00Z"),
        (CloudFilesSource(), "x", {"cloudfiles.modifiedafter": "2026"}, "modifiedAfter=2026"),
        (CloudFilesSource(), "x", {"cloudfiles.includeexistingfiles": "false"},
         "cloudFiles.includeExistingFiles=false"),
        (CloudFilesSource(), "x", {}, ""),
    ],
)  # fmt: skip
def test_a_source_knows_where_the_code_begins(
    kind: StreamingSource, format_: str, options: dict[str, str], begins: str
) -> None:
    """The options of a reader that leave out rows of the source; Kafka's default does."""
    if format_ == "x":
        mark = {"path": "/in", "options": {"cloudfiles.format": "json", **options}, "has_schema": True}
        options = {"sluice.cloudfiles": json.dumps(mark)}
    found = kind.recognize(StreamingRelation(format=format_, path="/in", options=options))
    assert found is not None
    assert found.begins == begins


def test_a_restart_after_the_newest_file_repeats_those_that_were_touched(
    world: HandWrittenWorld, tmp_path: Path
) -> None:
    """It is none if the newest file is from the future: no file would be read until then."""
    folder, stamp = tmp_path / "in", 1_700_000_000
    folder.mkdir()
    for each in ("a", "b"):
        (folder / each).write_text("{}", "utf-8")
        os.utime(folder / each, (stamp, stamp))
    given = {"cloudfiles.format": "json"}
    mark = {"path": str(folder), "options": given, "has_schema": True}
    options = parse_options(str(folder), given, has_schema=True, zone="UTC")
    source = SourceReference(
        kind="cloud_files", shape=SourceShape.FOLDER, location=str(folder), details=json.dumps(mark)
    )
    changed(world, reads=(), sources=(source,))
    log = FileLog(world.storage, f"{log_folder(str(world.path('orders')), 0)}/files").load()
    log.begin(())
    log.append(list_new(None, options, log))
    world.storage.write_text(str(world.path("orders") / "offsets/0"), f"v1\n{{}}\n{offset_text(2, 0)}")
    damage(world)
    assert "repeated: none" in cost(world, "RESET_HERE")
    os.utime(folder / "a")
    assert "repeated: unknown: the rows of files that were read and have changed since: a" in cost(world, "RESET_HERE")
    (folder / "c").write_text("{}", "utf-8")
    os.utime(folder / "c", (9e9, 9e9))
    log.append(list_new(None, options, log))
    world.storage.write_text(str(world.path("orders") / "offsets/0"), f"v1\n{{}}\n{offset_text(3, 0)}")
    assert "RESET_HERE" not in {each.way.name for each in finding(world).ways}
