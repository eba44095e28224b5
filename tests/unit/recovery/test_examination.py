"""The examination of a pipeline that no Spark ever ran: its checkpoints, Delta logs and events are written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.operators import StatefulOperator
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.local_storage import LocalStorage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.record import drafts
from framework.record.events import EventError, ExceptionSummary, Origin
from framework.record.log import EventLog
from framework.recovery.doctor.findings import Examination, Position, examine
from framework.run.tables.table_record import StorageLayout, TableRecord, write_record
from framework.run.tables.table_store import TableStore
from framework.testing.manual_clock import ManualClock
from framework.views.doctor import cost_text
from tests.support.fake_pipeline import name

TABLE = DatasetKind.STREAMING_TABLE
FLOWS = ("sound", "removed", "added", "damaged", "cut", "changed", "denied")
DELETED = "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Flow main.shop.changed cannot continue: Rows were deleted.\n  -> Ways."
DENIED = "[DATABASE_PERMISSION] The role r may not read t.\n  at shop.py:4\n  -> Run as its owner: `GRANT SELECT`."
NO_COLUMNS = '{"type":"struct","fields":[]}'
KEYS = StatefulOperator(number=0, name="dedupe")
OFFSET = {"sourceVersion": 1, "reservoirVersion": 1, "index": -1, "isStartingVersion": False}


class World:
    """One flow for each fault, each with a Delta source of three rows, of which it has read the first commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.storage = LocalStorage(str(folder / "storage"))
        self.store = TableStore(pipeline="shop", spark=cast("Any", None), storage=self.storage)
        self.graph = DataflowGraph(
            pipeline="shop",
            datasets=tuple(GraphDataset(spec=DatasetSpec(name=name(each), kind=TABLE), kind=TABLE) for each in FLOWS),
            flows=tuple(self._flow(each) for each in FLOWS),
        )
        for flow in FLOWS:
            self.commit(flow, 0, {"metaData": {"id": flow, "configuration": {}}}, added("a", 3))
            self.commit(flow, 1, added("b", 2))
            self._checkpoint(flow)
            self._table(flow)

    def _flow(self, flow: str) -> GraphFlow:
        path = str(self.folder / "sources" / flow)
        return GraphFlow(
            spec=FlowSpec(name=name(flow), target=name(flow)),
            reads=(Read(text=path, streaming=True, path=path),),
            streaming=True,
            operators=(KEYS,) if flow == "added" else (),
            source_count=1,
        )

    def commit(self, flow: str, version: int, *actions: dict[str, Any]) -> None:
        """Append a commit to the source of a flow."""
        file = self.folder / "sources" / flow / "_delta_log" / f"{version:020d}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions), "utf-8")

    def path(self, flow: str) -> Path:
        """The folder of a flow's checkpoint."""
        return Path(GenerationStore(self.storage).path(name(flow), name(flow), 1))

    def _checkpoint(self, flow: str) -> None:
        GenerationStore(self.storage, self.clock).begin(name(flow), name(flow), reason="first run")
        offset = json.dumps({**OFFSET, "reservoirId": flow})
        files = {"metadata": '{"id":"q"}', "offsets/0": f"v1\n{{}}\n{offset}", "commits/0": "v1\n{}"}
        if flow == "removed":
            info = {"operatorInfo": {"operatorName": "dedupe"}, "stateStoreInfo": [{"numPartitions": 1}]}
            files |= {"state/0/_metadata/metadata": f"v1\n{json.dumps(info)}", "state/0/0/1.delta": ""}
        for file, text in files.items():
            self.storage.write_text(str(self.path(flow) / file), text)

    def _table(self, flow: str) -> None:
        """Make the table of a flow exist, with the record of its last definition."""
        folder = self.store.path(DatasetSpec(name=name(flow), kind=TABLE))
        tip = json.dumps({"metaData": {"id": flow, "configuration": {}}}, separators=(",", ":"))
        self.storage.write_text(f"{folder}/_delta_log/{0:020d}.json", tip)
        record = TableRecord(dataset=name(flow), path=folder, definition="", schema=NO_COLUMNS, table_id=flow)
        write_record(self.storage, StorageLayout(storage=self.storage), record)

    def fail(self, flow: str, text: str) -> None:
        """Record that a flow failed in an update."""
        error = EventError(fatal=True, exceptions=(ExceptionSummary(class_name="OperationError", message=text),))
        origin = Origin(pipeline_id="shop", pipeline_name="shop", update_id=flow)
        self.clock.sleep(10)
        with EventLog(self.storage, origin, self.clock) as log:
            log.record(
                drafts.flow_progress(flow=str(name(flow)), dataset=str(name(flow)), status="FAILED", error=error)
            )

    def examine(self, *flows: str) -> Examination:
        """Examine the pipeline."""
        return examine(self.graph, self.store, clock=self.clock, flows=flows)


def added(path: str, rows: int) -> dict[str, Any]:
    """The action that adds a file."""
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path, "size": 10, "partitionValues": {}, "dataChange": True, "stats": stats}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """All flows broken but the sound one."""
    world = World(tmp_path)
    (world.path("damaged") / "metadata").unlink()
    (world.path("cut") / "offsets/0").write_text("v1\n", "utf-8")
    world.commit("changed", 2, {"remove": {"path": "a", "dataChange": True}}, added("c", 2))
    world.fail("changed", DELETED)
    world.fail("denied", DENIED)
    return world


def test_each_fault_has_its_diagnosis_and_its_costs(world: World) -> None:
    """Breaks are foretold, damage is found, failures are read from the log; costs are those of the Delta logs."""
    here = "lost: none; repeated: none; read again: none"
    again = "lost: none; repeated: 3 rows; read again: 5 rows"
    rebuilt = "lost: none; repeated: none; read again: 5 rows"
    ways = {
        finding.flow.table: (finding.diagnosis.name, [(way.way.name, cost_text(way.cost)) for way in finding.ways])
        for finding in world.examine().findings
        if finding.flow is not None
    }
    keys = "lost: none; repeated: unknown: later duplicates of rows that were read before; read again: none"
    gone = f"unknown: rows that were deleted from {world.folder}/sources/changed"
    deleted = f"lost: {gone}; repeated: none; read again: 4 rows"
    bounded = "lost: none; repeated: at most 5 rows; read again: 5 rows"
    assert ways == {
        "removed": ("STATEFUL_OPERATORS_CHANGED", [
            ("RESTORE", here), ("RESET_HERE", here), ("RESET_START", again), ("FULL_REFRESH", rebuilt),
        ]),
        "added": ("STATEFUL_OPERATORS_CHANGED", [
            ("RESTORE", here), ("RESET_HERE", keys), ("RESET_START", again), ("FULL_REFRESH", rebuilt),
        ]),
        "damaged": ("CHECKPOINT_DAMAGED", [
            ("RESET_HERE", here), ("RESET_START", again), ("FULL_REFRESH", rebuilt),
        ]),
        "cut": ("CHECKPOINT_DAMAGED", [("RESET_START", bounded), ("FULL_REFRESH", rebuilt)]),
        "changed": ("DELTA_SOURCE_CHANGED", [
            ("RESTORE", here),
            ("RESET_AFTER_CHANGE",
             "lost: 2 rows: the change of version 2 is not applied; repeated: none; read again: none"),
            ("RESET_START", "lost: none; repeated: at most 4 rows; read again: 4 rows"),
            ("FULL_REFRESH", deleted),
        ]),
        "denied": ("PERMISSION_MISSING", [("FOLLOW", here), ("RUN_AGAIN", here)]),
    }  # fmt: skip


def test_a_finding_has_the_command_and_the_evidence(world: World) -> None:
    """The command is complete, and the evidence has paths and positions."""
    (finding,) = world.examine("changed").findings
    assert (finding.condition, finding.sqlstate, finding.updates) == ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "0A000", 1)
    assert finding.position == Position(generation=1, starts=("startingVersion=1",))
    assert [way.command for way in finding.ways] == [
        None,
        "sluice run --reset-checkpoint main.shop.changed --from startingVersion=3",
        "sluice run --reset-checkpoint main.shop.changed",
        "sluice run --full-refresh main.shop.changed",
    ]
    assert finding.evidence == (
        f"checkpoint: generation 1, batch 0 committed, {world.path('changed')}",
        "position: startingVersion=1",
        f"event log: {world.storage.path('events', 'changed.jsonl')}",
        "unread: 4 rows, 20 bytes",
    )
    (denied,) = world.examine("shop.denied").findings
    assert (denied.location, denied.ways[0].text) == ("shop.py:4", "Run as its owner: `GRANT SELECT`.")


def test_a_failure_of_an_earlier_checkpoint_is_over(world: World) -> None:
    """After a reset, the next update decides whether the flow still fails."""
    world.clock.sleep(10)
    GenerationStore(world.storage, world.clock).begin(name("changed"), name("changed"), reason="reset")
    assert world.examine("changed").findings == ()


def test_a_sound_flow_has_no_finding_and_an_unknown_one_is_refused(world: World) -> None:
    """Unread data alone is no finding, and a wrong name is an error with the nearest one."""
    assert world.examine("sound") == Examination(flows=1, findings=())
    with pytest.raises(UserError, match="FLOW_NOT_FOUND"):
        world.examine("chnged")
