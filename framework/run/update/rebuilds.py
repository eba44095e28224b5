"""Full refreshes: computed in a copy of the table and published in one commit, so that readers see the old rows before.

The effects in order, and why a crash after each is safe:

0. with history: the backup of the table is written -> it is complete or it is not one; the next request starts over and
   takes it if the table has not changed;
1. the mark "rebuild n is building", with the number of its backup, is written -> the next update finds it and
   continues the rebuild;
2. the copy's table and the flows' generations (marked with rebuild n) are created, and batches are written ->
   as for any flow; a generation of an older rebuild has another mark and is not continued, so no row is missed;
   With history: the rows that the copy lacks are appended or merged into it, once, and the mark says so -> until then
   the table is as before; flows of the rebuild that run again in between only add what their sources have;
3. the table's rows are replaced by the copy's, as transaction n -> a repeated write is skipped;
4. the mark "rebuild n is published" is written -> from here the rebuild's generations count as current;
5. each generation is promoted atomically -> the next update promotes the rest;
6. the copy is deleted and the mark "rebuild n is finished" is written -> nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.declare.specs import DatasetKind
from framework.foundation.clock import Clock
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.plan.steps import PublishRebuild
from framework.run.flows.state_reader import building_of
from framework.run.flows.streaming_query import session_for
from framework.run.tables.table_store import TableStore
from framework.run.update.kept_history import KeptHistory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rebuilds:
    """Begins, publishes and finishes the rebuilds of a store's tables."""

    pipeline: str
    graph: DataflowGraph
    store: TableStore
    clock: Clock

    @property
    def _marks(self) -> RebuildStore:
        return RebuildStore(self.store.storage)

    @property
    def _history(self) -> KeptHistory:
        return KeptHistory(pipeline=self.pipeline, store=self.store, clock=self.clock)

    def begin(self, dataset: GraphDataset, number: int, *, history: tuple[str, ...] | None = None) -> None:
        """Set up the copy of rebuild `number`; an existing copy is continued.

        Args:
            dataset: the dataset.
            number: the number of the rebuild.
            history: the columns that identify a row to put back, () for all; None: no row is put back.

        Raises:
            UserError: HISTORY_NOT_KEPT.
        """
        before = self._marks.read(dataset.name)
        if before is None or before.number != number:
            mark = Rebuild(number=number)
            if history is not None:
                self.store.check_owner(dataset.spec, self.store.address(dataset.spec))
                mark = replace(mark, backup=self._history.begin(dataset).number, history_keys=history)
            self._marks.write(dataset.name, mark)
            failpoint("rebuilds.after_begin")
            if before is not None:
                self.store.storage.delete_tree(self.store.layout.rebuild(dataset.name, before.number))
        self.store.create(dataset, rebuild=number)

    def publish(self, step: PublishRebuild) -> None:
        """Replace the table's rows by the copy's, and make the rebuild's generations current."""
        dataset = self.graph.dataset(step.dataset)
        assert dataset is not None
        self.store.check_owner(dataset.spec, self.store.address(dataset.spec))
        mark = self._put_back(dataset, step.rebuild)
        if dataset.cdc is not None:
            self._replace(
                dataset,
                self.store.auxiliary(dataset.spec, step.rebuild),
                self.store.auxiliary(dataset.spec),
                step.rebuild,
            )
            failpoint("rebuilds.after_auxiliary")
            # A crash here is safe: no flow runs in between, and the next update publishes again before any flow runs.
        self._replace(
            dataset, self.store.address(dataset.spec, step.rebuild), self.store.address(dataset.spec), step.rebuild
        )
        failpoint("rebuilds.after_publish")
        self.store.write_record(dataset)
        if mark.backup is not None:
            self._history.publish(dataset, mark)
        self._marks.write(dataset.name, replace(mark, published=True))
        failpoint("rebuilds.after_mark")
        self.settle(dataset.name)

    def _put_back(self, dataset: GraphDataset, number: int) -> Rebuild:
        """Put the rows back that the rebuild lacks, if it keeps history; return the mark of the rebuild."""
        mark = self._marks.read(dataset.name) or Rebuild(number=number)
        if mark.backup is None or mark.restored:
            return mark
        # A user may have changed the table since the rebuild began: then there is a newer backup.
        backup = self._history.back_up(dataset)
        if backup.number != mark.backup:
            mark = replace(mark, backup=backup.number)
            self._marks.write(dataset.name, mark)
        self._history.put_back(dataset, mark)
        failpoint("rebuilds.after_history")
        mark = replace(mark, restored=True)
        self._marks.write(dataset.name, mark)
        return mark

    def settle_all(self) -> None:
        """Finish the published rebuilds that a crash interrupted, before any of their flows runs."""
        for dataset in self.graph.datasets:
            if dataset.kind is DatasetKind.STREAMING_TABLE:
                self.settle(dataset.name)

    def settle(self, name: QualifiedName) -> None:
        """Promote the generations of a published rebuild, then delete its copy."""
        rebuild = self._marks.read(name)
        if rebuild is None or not rebuild.published or rebuild.finished:
            return
        generations = GenerationStore(self.store.storage)
        for flow in self.graph.flows_into(name):
            number = building_of(generations.manifest(name, flow.spec.name), rebuild)
            if number is not None:
                generations.promote(name, flow.spec.name, number)
                failpoint("rebuilds.after_promote")
        self.store.storage.delete_tree(self.store.layout.rebuild(name, rebuild.number))
        self._marks.write(name, replace(rebuild, finished=True))

    def _replace(self, dataset: GraphDataset, source: TableAddress, target: TableAddress, number: int) -> None:
        """Replace the rows of the target by those of the source, in one idempotent commit."""
        if not self.store.exists(source):
            if self.store.exists(target):
                self.store.delete_rows(target)
            return
        session = session_for(self.store.spark, {})
        rows = session.read.format("delta").load(str(source.path))
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer = writer.option("txnAppId", f"sluice:{self.pipeline}:rebuild:{dataset.name}").option(
            "txnVersion", number
        )
        if dataset.spec.partition_columns:
            writer = writer.partitionBy(*dataset.spec.partition_columns)
        writer.save(str(target.path))
