"""A pipeline that no Spark ever ran: its checkpoints, Delta logs and events are written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.operators import StatefulOperator
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.files.local_storage import LocalStorage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.plan.state import TableKind
from framework.record import drafts
from framework.record.events import EventError, ExceptionSummary, Origin
from framework.record.log import EventLog
from framework.recovery.doctor.finding import Examination
from framework.recovery.doctor.findings import examine
from framework.run.tables.table_record import StorageLayout, TableRecord, write_record
from framework.run.tables.table_store import TableStore
from framework.testing.manual_clock import ManualClock
from tests.support.fake_pipeline import name
from tests.support.no_catalogs import NoCatalogs

TABLE = DatasetKind.STREAMING_TABLE
DELETE = {"commitInfo": {"operation": "DELETE", "operationMetrics": {}}}
"""The information of a commit that only deletes."""

NO_COLUMNS = '{"type":"struct","fields":[]}'
KEYS = StatefulOperator(number=0, name="dedupe")
OFFSET = {"sourceVersion": 1, "reservoirVersion": 1, "index": -1, "isStartingVersion": False}

EMPTY_STATE = "LZ4Block\x15" + "\0" * 12
"""A file of changes without any: a stream of LZ4 that has only its last block."""


class HandWrittenWorld:
    """Flows, each with a Delta source of two commits, of three and of two rows, of which it has read the first.

    Args:
        folder: an empty folder.
        names: the short names of the flows; `removed` has had an operator, and `added` got one.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.storage = LocalStorage(str(folder / "storage"))
        self.store = TableStore(pipeline="shop", spark=cast("Any", NoCatalogs()), storage=self.storage)
        self.graph = DataflowGraph(
            pipeline="shop",
            datasets=tuple(GraphDataset(spec=DatasetSpec(name=name(each), kind=TABLE), kind=TABLE) for each in names),
            flows=tuple(self._flow(each) for each in names),
        )
        for flow in names:
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
            files |= {"state/0/_metadata/metadata": f"v1\n{json.dumps(info)}", "state/0/0/1.delta": EMPTY_STATE}
        for file, text in files.items():
            self.storage.write_text(str(self.path(flow) / file), text)

    def _table(self, flow: str) -> None:
        """Make the table of a flow exist, with the record of its last definition."""
        folder = self.store.path(DatasetSpec(name=name(flow), kind=TABLE))
        tip = json.dumps({"metaData": {"id": flow, "configuration": {}}}, separators=(",", ":"))
        self.storage.write_text(f"{folder}/_delta_log/{0:020d}.json", tip)
        record = TableRecord(
            dataset=name(flow), path=folder, definition="", schema=NO_COLUMNS, table_id=flow, pipeline="shop",
            kind=TableKind.STREAMING_TABLE,
        )  # fmt: skip
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
