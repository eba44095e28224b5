"""Streaming tables with commits and checkpoints that no Spark ever wrote, for tests of rewinds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from framework.cdc.model.target_plan import TargetPlan
from framework.checkpoints.generations import GenerationStore
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.files.local_storage import LocalStorage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.recovery.rewind.consistent_versions import ConsistentVersions
from framework.recovery.rewind.point_in_time import PointInTime
from framework.recovery.rewind.positions import FlowPosition, Positions
from framework.recovery.rewind.tables import StoredTable
from framework.run.tables.table_store import OWNER_PROPERTY, TableStore
from framework.testing.manual_clock import START, ManualClock
from tests.support.fake_pipeline import name
from tests.support.no_catalogs import NoCatalogs

TABLE = DatasetKind.STREAMING_TABLE
START_MS = int(START.timestamp() * 1000)


class World:
    """Streaming tables with one append flow each, in a storage whose files a test writes; a second passes each time."""

    def __init__(self, folder: Path, *tables: str, cdc: bool = False) -> None:
        self.clock = ManualClock()
        self.storage = LocalStorage(str(folder))
        self.store = TableStore(pipeline="shop", spark=cast("Any", NoCatalogs()), storage=self.storage)
        target = cast("TargetPlan", object()) if cdc else None
        self.graph = DataflowGraph(
            pipeline="shop",
            datasets=tuple(
                GraphDataset(spec=DatasetSpec(name=name(each), kind=TABLE), kind=TABLE, cdc=target) for each in tables
            ),
            flows=tuple(
                GraphFlow(spec=FlowSpec(name=name(each), target=name(each)), streaming=True) for each in tables
            ),
        )
        self.generations = GenerationStore(self.storage, self.clock)
        self.versions: dict[str, int] = {}
        for each in tables:
            self.begin(each)
            self.commit(each, {"metaData": {"id": each, "configuration": {OWNER_PROPERTY: "shop"}}})

    def now_ms(self) -> int:
        """The present time."""
        return START_MS + round(self.clock.elapsed_seconds * 1000)

    def begin(self, table: str, **arguments: Any) -> int:
        """Begin a generation of a table's flow."""
        self.clock.sleep(1)
        number = self.generations.begin(name(table), name(table), reason="", **arguments).number
        path = self.generations.path(name(table), name(table), number)
        self.storage.write_text(f"{path}/metadata", json.dumps({"id": f"{table} {number}"}))
        return number

    def commit(self, table: str, *actions: dict[str, Any]) -> int:
        """Commit to a table, and return the version."""
        self.clock.sleep(1)
        version = self.versions[table] = self.versions.get(table, -1) + 1
        folder = self._folder(table)
        self.storage.write_text(
            f"{folder}/{version:020d}.json",
            "".join(f"{json.dumps(each)}\n" for each in actions).replace('": ', '":').replace(', "', ',"'),
        )
        seconds = START.timestamp() + self.clock.elapsed_seconds
        os.utime(f"{folder}/{version:020d}.json", (seconds, seconds))
        return version

    def _folder(self, table: str) -> str:
        owner, _, part = table.partition(" ")
        spec = DatasetSpec(name=name(owner), kind=TABLE)
        path = self.store.auxiliary(spec).path if part else self.store.path(spec)
        return f"{path}/_delta_log"

    def batch(self, table: str, number: int, generation: int = 1, **read: int) -> int:
        """Run a batch of a table's flow, which has read other tables up to a version each; return its version."""
        path = self.generations.path(name(table), name(table), generation)
        offsets = [
            json.dumps({"reservoirId": each, "reservoirVersion": version, "index": -1, "isStartingVersion": False})
            for each, version in read.items()
        ]
        text = "\n".join(["v1", "{}", *(offsets or ['{"logOffset":1}'])])
        self.storage.write_text(f"{path}/offsets/{number}", text)
        if not offsets:
            self.storage.write_text(f"{path}/sources/0/1.compact", "v1")
        version = self.commit(table, taken(f"{table} {generation}", number), ADDED)
        self.storage.write_text(f"{path}/commits/{number}", "v1\n{}")
        return version

    def empty_batch(self, table: str, number: int, **read: int) -> None:
        """Run a batch without rows, which an AUTO CDC target gets no commit for."""
        version = self.versions[table]
        self.batch(table, number, **read)
        path = self.generations.path(name(table), name(table), 1)
        seconds = START.timestamp() + self.clock.elapsed_seconds
        os.utime(f"{path}/commits/{number}", (seconds, seconds))
        (Path(self._folder(table)) / f"{version + 1:020d}.json").unlink()
        self.versions[table] = version

    def cut(self, *tables: str, at: int | None = None) -> ConsistentVersions:
        """The cut at a time, by default the present."""
        found = [dataset for dataset in self.graph.datasets if dataset.name.table in (tables or self.versions)]
        stored = {each.name: table for each in found if (table := StoredTable.of(each, self.store)) is not None}
        time_ms = self.now_ms() if at is None else at
        moment = PointInTime(request="then", text="then", time_ms=time_ms)
        positions = Positions(pipeline="shop", storage=self.storage)
        cut = ConsistentVersions(graph=self.graph, positions=positions, tables=stored, moment=moment)
        cut.find()
        return cut

    def versions_at(self, time_ms: int) -> dict[str, int]:
        """The versions of all tables at a time."""
        cut = self.cut(at=time_ms)
        return {table.name.table: cut.moment_of(table.name).version for table in self.graph.datasets}

    def position(self, table: str, time_ms: int) -> tuple[int | None, int | None]:
        """The generation and the batch of a table's flow at a time."""
        flow = self.graph.flow(name(table))
        assert flow is not None
        found: FlowPosition = self.cut(at=time_ms).position(flow)
        return (None if found.generation is None else found.generation.number, found.batch)


def taken(application: str, number: int) -> dict[str, Any]:
    """The transaction of a batch."""
    return {"txn": {"appId": application, "version": number}}


ADDED = {"add": {"path": "a", "dataChange": True}}
COMPACTED = {"add": {"path": "a", "dataChange": False}}
