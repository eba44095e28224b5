"""The runner of flows from snapshots: the current rows of a source, or a sequence of snapshots from a function.

The effects of one snapshot in order, and why a crash after each is safe:

1. Its version and ordinal are claimed in the checkpoint. Nothing is in the target yet. A function returns the same
   version again, which gets the same ordinal. A snapshot of the current rows gets a later version and a new ordinal,
   because the source may have changed.
2. Its changes are written to the auxiliary table and the target, each as transaction `ordinal`. The same version is
   skipped by its transaction. A later version is compared with the current target, so unchanged rows produce no
   changes.
3. It is marked as applied.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from framework.cdc.model.snapshot_versions import SnapshotVersion, version_at
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.snapshots import SnapshotMark, SnapshotProgress, SnapshotStore
from framework.engine.plans.relations import moved
from framework.foundation.errors import SluiceError
from framework.foundation.failpoints import failpoint
from framework.graph.resolving.snapshots import next_snapshot
from framework.graph.target_tables.dropped_columns import with_dropped
from framework.graph.target_tables.targets import table_target
from framework.run.flows.expectations import counted, guarded
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import FlowOutcome, observing
from framework.run.flows.reads import FlowQuery
from framework.run.flows.streaming_query import StoppedError

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from framework.declare.registry import SnapshotFunction
    from framework.declare.specs import FlowSpec
    from framework.graph.graph import GraphDataset


def run_snapshot_flow(run: FlowRun) -> FlowOutcome:
    """Apply the source's snapshots to the target, one after the other.

    Raises:
        StoppedError: the update was stopped; applied snapshots stay.
        UserError: the snapshot function broke its contract.
    """
    context = run.context
    generations = GenerationStore(run.storage)
    stores = {
        each.number: SnapshotStore(run.storage, generations.path(run.dataset.name, run.flow.spec.name, each.number))
        for each in generations.read(run.dataset.name, run.flow.spec.name)
    }
    progress = stores.pop(run.step.generation)
    snapshots = _Snapshots(
        run=run, session=run.session(), progress=progress, earlier=tuple(each.read() for each in stores.values())
    )
    function = context.registry.snapshot_functions.get(run.flow.spec.name)
    if function is not None:
        return snapshots.handed_out(function)
    source = context.state.source_identity(run.flow)  # read before the rows, so that a change in between counts as new
    return snapshots.present(run.query(), source=source, now=context.clock.now())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Snapshots:
    """The snapshots of one run.

    Args:
        run: flow, target and step.
        session: the flow's session.
        progress: the snapshots claimed and applied in this generation.
        earlier: the snapshots of other generations; a snapshot of the current rows gets a later version than all of
            them.
    """

    run: FlowRun
    session: SparkSession
    progress: SnapshotStore
    earlier: tuple[SnapshotProgress, ...]

    @property
    def spec(self) -> FlowSpec:
        """The flow's declaration."""
        return self.run.flow.spec

    def present(self, query: FlowQuery, *, source: str | None, now: datetime) -> FlowOutcome:
        """Apply the current rows of the source.

        Args:
            query: the source.
            source: identifies the state of the source before it was read.
            now: the current time, used as the version.
        """
        claimed = [each.claimed for each in (*self.earlier, self.progress.read()) if each.claimed is not None]
        versions = [SnapshotVersion.from_json(mark.version) for mark in claimed]
        latest = max((each for each in versions if each.kind == "timestamp"), key=lambda v: v.value, default=None)
        return self._apply(query, self.run.dataset, version_at(now, after=latest), source)

    def handed_out(self, function: SnapshotFunction) -> FlowOutcome:
        """Apply the snapshots of the function until it returns None.

        Raises:
            StoppedError: the update was stopped; applied snapshots stay.
            UserError: the function broke its contract.
        """
        total, dataset = FlowOutcome(written=0), self.run.dataset
        while not self.run.context.stop.is_set:
            applied = self.progress.read().applied
            latest = None if applied is None else SnapshotVersion.from_json(applied.version)
            found = next_snapshot(function, self.spec, latest)
            if found is None:
                return total
            dataset = self._fitting(dataset, found.frame, found.version)
            expectations = dataset.spec.expectations
            checked = with_dropped(found.frame, expectations)
            frame = checked.of_query(guarded(checked.frame, dataset.name, checked.expectations))
            query = FlowQuery(frame=frame, expectations={dataset.name: expectations})
            total = total.plus(self._apply(query, dataset, found.version, None))
        raise StoppedError(str(self.spec.name))

    def _fitting(self, dataset: GraphDataset, frame: DataFrame, version: SnapshotVersion) -> GraphDataset:
        """Add the snapshot's new columns to the target's table, and return the changed target."""
        stored = StructType.fromJson(json.loads(dataset.table_schema or ""))
        versions = {self.spec.name: version.data_type}
        wanted = table_target(replace(dataset, cdc=None), [(self.spec, frame)], stored, versions)
        if wanted.table_schema != dataset.table_schema:
            self.run.context.store.create(wanted, self.run.step.rebuild)
        return wanted

    def _apply(
        self, query: FlowQuery, dataset: GraphDataset, version: SnapshotVersion, source: str | None
    ) -> FlowOutcome:
        assert dataset.cdc is not None  # a flow from snapshots is an AUTO CDC flow
        text = version.to_json()
        mark = SnapshotMark(ordinal=self.progress.read().next_ordinal(text), version=text, source=source)
        self.progress.claim(mark)
        failpoint("snapshots.after_claim")
        try:
            with observing(self.session) as observed:
                frame = moved(query.frame, self.session)
                metrics = self.run.writer_of(dataset.cdc).apply_snapshot(frame, version, mark.ordinal)
        except SluiceError as error:
            raise error if error.location else error.at(self.spec.location) from error
        failpoint("snapshots.before_mark")
        self.progress.apply(mark)
        quality = FlowOutcome(quality=counted(observed, query.expectations))
        outcome = FlowOutcome.of_cdc(metrics).plus(quality)
        self.run.on_outcome(outcome, None)
        return outcome
