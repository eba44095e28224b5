"""Full refreshes: computed in a copy of the table and published in one commit; until then readers see the old rows.

The effects in order, and why a crash after each is safe:

0. With history, the backup of the table is written. An incomplete backup does not count; the next request starts over,
   and uses a complete one if the table has not changed.
1. The mark "rebuild n is building", with the number of its backup, is written. The next update finds it and continues
   the rebuild. Of several tables, readers of other tables are marked first: a table that is rebuilt from old rows of
   another table is correct, but one that continues to read a table with replaced rows fails.
2. The copy's table and the flows' generations (marked with rebuild n) are created, and batches are written, as for any
   flow. A generation of an older rebuild has another mark and is not continued, so no row is missed.
   With history, the rows that the copy lacks are appended or merged into it once, and the mark records this. Until then
   the table is unchanged; flows of the rebuild that run again in between only add what their sources have.
3. The mark "rebuild n is frozen" is written. From here on no flow writes to the copy, and the rebuild's generations
   count as current: each update does the rest before a flow of the table runs. If flows continued, their new rows would
   be in the checkpoints and the copy, but not in the table, because its transaction n is already done.
4. AUTO CDC's auxiliary table and then the table are replaced with the copy's, as transaction n. A repeated write is
   skipped.
   With history, quarantined rows that the sources no longer have are kept open. Repeating this changes nothing.
5. The mark "rebuild n is published" is written.
6. Each generation is promoted atomically, and flows that the rebuild does not have lose theirs, because their rows are
   no longer in the table. The next update does the rest.
7. The copy is deleted and the mark "rebuild n is finished" is written. Nothing is left.

If the table is declared as a view meanwhile, the view abandons the rebuild before it replaces the rows. Otherwise the
table would keep transaction n, and the rebuild's generations would continue after rows of the view.

From 1 to 7 resets, roll-backs, rewinds and replays are refused, because the end of the rebuild would undo them.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import StructType

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.auxiliary_table import create_auxiliary_table
from framework.cdc.model.columns import quote
from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.checkpoints.manifest import BY_REFRESH
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.declare.specs import DatasetKind
from framework.engine.delta.table_overwrite import overwrite_table
from framework.engine.delta.table_version import read_table
from framework.engine.delta.transaction_identifiers import Batch
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.graph.queries.calls import first_words
from framework.plan.steps import PublishRebuild
from framework.run.flows.state.generation_numbers import name_generation
from framework.run.flows.state.state_reader import building_of
from framework.run.flows.streaming_query import session_for
from framework.run.tables.column_changes import check_stored, support_types
from framework.run.tables.marked_tables import mark_table
from framework.run.tables.table_store import TableStore
from framework.run.update.fault_classification import fault_of
from framework.run.update.refresh.kept_history import KeptHistory
from framework.run.update.refresh.kept_quarantine import KeptQuarantine
from framework.sources.delta.history import CommitHistory

_CONSTRAINT = "delta.constraints."
"""The prefix of the table property of a CHECK constraint."""

_DATA_FAULT = "22"
"""The SQLSTATE class of expressions that have no value for a row, such as a failed cast."""

_REFUSED = frozenset(
    {"FULL_REFRESH_OF_APPEND_ONLY_TABLE", "FULL_REFRESH_VIOLATES_CONSTRAINT", "FULL_REFRESH_MISFITS_CONSTRAINT"}
)
"""The conditions of a frozen full refresh that has not changed the table at all."""


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

    def prepare(self, dataset: GraphDataset, number: int, *, history: tuple[str, ...] | None = None) -> Rebuild:
        """Return the mark of rebuild `number`: the stored one, or else a new one, whose backup is made here.

        Args:
            dataset: the dataset.
            number: the number of the rebuild.
            history: the columns that identify a row to put back, or `ALL_COLUMNS`; None to put no row back.

        Raises:
            UserError: HISTORY_NOT_KEPT.
        """
        before = self._marks.read(dataset.name)
        if before is not None and before.number == number:
            return before
        mark = Rebuild(number=number, identifier="" if before is None else before.identifier)
        if history is None:
            return mark
        # Otherwise the backup could combine the auxiliary table of the earlier rebuild with the target from before it.
        try:
            self.settle(dataset)
        except OperationError as error:
            assert before is not None  # the rebuild that can't be published
            auxiliary = self.store.auxiliary(dataset.spec)
            if error.condition not in _REFUSED or self._has_rebuild(auxiliary, dataset, before):
                raise
            # The new rebuild abandons it.
        self.store.check_owner(dataset.spec, self.store.address(dataset.spec))
        return replace(mark, backup=self._history.begin(dataset).number, history_keys=history)

    def begin(self, dataset: GraphDataset, mark: Rebuild) -> None:
        """Write the mark of a rebuild, unless the rebuild continues and its mark is already stored."""
        if self._marks.read(dataset.name) != mark:
            self._marks.write(dataset.name, mark)
            failpoint("rebuilds.after_begin")

    def set_up(self, dataset: GraphDataset, mark: Rebuild) -> None:
        """Set up the copy of a begun rebuild; continue an existing copy, and delete copies of other rebuilds.

        Raises:
            OperationError: REBUILD_COPY_LOST if flows have written to the copy, but it no longer exists.
        """
        self._delete_copies(dataset.name, besides=mark.number)
        manifests = GenerationStore(self.store.storage).list_of(dataset.name)
        if any(building_of(manifest, mark) is not None for manifest in manifests):
            # Generations begin after the copy is created: they would continue after rows that are missing.
            self._check_copy(dataset, mark)
        self.store.create(dataset, rebuild=mark.number)

    def publish(self, step: PublishRebuild) -> None:
        """Replace the table's rows by the copy's, and make the rebuild's generations current."""
        dataset = self.graph.dataset(step.dataset)
        assert dataset is not None
        self.store.check_owner(dataset.spec, self.store.address(dataset.spec))
        mark = self._put_back(dataset, step.rebuild)
        if not mark.frozen:
            # Not in the transaction that replaces the columns: a frozen rebuild has to be published. A column that
            # somebody adds after this check is dropped with the rows.
            check_stored(self.store.storage, self.store.path(dataset.spec), dataset, step.change)
            mark = replace(mark, frozen=True, identifier=uuid4().hex)
        self._marks.write(dataset.name, mark)
        failpoint("rebuilds.after_freeze")
        self._replace_tables(dataset, mark)
        self.store.create(dataset)  # the table's properties and comment are not those of the copy
        self._finish(dataset, self._published(dataset, mark))

    def settle(self, dataset: GraphDataset) -> None:
        """Finish a frozen rebuild that a crash or a failure interrupted; do nothing if there is none.

        Raises:
            OperationError: REBUILD_COPY_LOST.
            Exception: the publication failed; the rebuild is still frozen, and no flow may write to the table.
        """
        mark = self._marks.read(dataset.name)
        if mark is None or mark.is_building or mark.finished:
            return
        address, copy = self.store.address(dataset.spec), self.store.address(dataset.spec, mark.number)
        # After the publication, an older copy of the table may have been put in its place.
        if not mark.published or (self.store.exists(copy) and not self._has_rebuild(address, dataset, mark)):
            self.store.check_owner(dataset.spec, address)
            self._replace_tables(dataset, mark)
            # The code may have changed since the copy was made: the update applies the present definition.
            self.store.record_unknown(dataset)
            mark = self._published(dataset, mark)
        self._finish(dataset, mark)

    def settle_all(self, names: Container[QualifiedName] | None = None) -> dict[QualifiedName, SluiceError]:
        """Finish frozen rebuilds, and return the tables where that failed, to which no flow may write.

        Args:
            names: the tables; None for all.
        """
        found = {}
        for dataset in self.graph.datasets:
            if dataset.kind is DatasetKind.STREAMING_TABLE and (names is None or dataset.name in names):
                error = fault_of(partial(self.settle, dataset), dataset.name, dataset.spec.location)
                if error is not None:
                    found[dataset.name] = error
        return found

    def _put_back(self, dataset: GraphDataset, number: int) -> Rebuild:
        """Put back the rows that the rebuild lacks, if it keeps history; return the rebuild's mark."""
        mark = self._marks.read(dataset.name) or Rebuild(number=number)
        if mark.backup is None or mark.restored:
            return mark
        # A user may have changed the table since the rebuild began; in that case there is a newer backup.
        backup = self._history.back_up(dataset)
        if backup.number != mark.backup:
            mark = replace(mark, backup=backup.number)
            self._marks.write(dataset.name, mark)
        self._history.put_back(dataset, mark, self.graph.flows_into(dataset.name))
        failpoint("rebuilds.after_history")
        mark = replace(mark, restored=True)
        self._marks.write(dataset.name, mark)
        return mark

    def _check_copy(self, dataset: GraphDataset, mark: Rebuild) -> None:
        copy = self.store.address(dataset.spec, mark.number)
        if not self.store.exists(copy):
            raise OperationError("REBUILD_COPY_LOST", dataset=dataset.name, path=copy.path)

    def _check_takes_rows(self, dataset: GraphDataset, copy: TableAddress, target: TableAddress) -> None:
        """Check the table's rules that its copy does not have: delta.appendOnly and CHECK constraints of users."""
        tip = self.store.metadata(target)
        if tip.is_append_only:
            raise OperationError(
                "FULL_REFRESH_OF_APPEND_ONLY_TABLE",
                location=dataset.spec.location,
                dataset=dataset.name,
                table=target.sql,
            )
        checks = sorted((key, check) for key, check in tip.properties.items() if key.startswith(_CONSTRAINT))
        if not checks:
            return
        rows = read_table(session_for(self.store.spark, {}), copy)
        for key, check in checks:
            name = key.removeprefix(_CONSTRAINT)
            refusal = partial(
                OperationError,
                location=dataset.spec.location,
                dataset=dataset.name,
                constraint=name,
                check=check,
                statement=f"ALTER TABLE {target.sql} DROP CONSTRAINT {quote(name)}",
            )
            try:
                is_violated = not rows.where(f"NOT coalesce(({check}), false)").isEmpty()
            except PySparkException as error:
                # The query no longer returns its column, or with another type, or a value makes the check raise.
                if not isinstance(error, AnalysisException) and not (error.getSqlState() or "").startswith(_DATA_FAULT):
                    raise
                raise refusal("FULL_REFRESH_MISFITS_CONSTRAINT", problem=first_words(error)) from error
            if is_violated:
                raise refusal("FULL_REFRESH_VIOLATES_CONSTRAINT")

    def _replace_tables(self, dataset: GraphDataset, mark: Rebuild) -> None:
        self._check_copy(dataset, mark)
        address, copy = self.store.address(dataset.spec), self.store.address(dataset.spec, mark.number)
        auxiliary = self.store.auxiliary(dataset.spec, mark.number)
        if not self.store.exists(address):  # dropped meanwhile; without its properties it would not be ours
            # Before a crash, some generations of the rebuild may have been made current.
            GenerationStore(self.store.storage).retire_lost(dataset.name, besides=mark.generation_mark)
            self.store.create(dataset)
        self._check_takes_rows(dataset, copy, address)  # before the auxiliary table is replaced
        if dataset.cdc is not None or self.store.exists(auxiliary):
            kept = self.store.auxiliary(dataset.spec)
            self._make_fitting(dataset, auxiliary, kept)
            if self.store.exists(auxiliary):
                self._replace(dataset, auxiliary, kept, mark)
            elif self.store.exists(kept):  # the refresh had no event that needs one
                session = session_for(self.store.spark, {})
                name_generation(session, str(kept.path), self._application(dataset, mark), mark.number)
                self.store.delete_rows(kept)
            failpoint("rebuilds.after_auxiliary")
        self._replace(dataset, copy, address, mark)
        failpoint("rebuilds.after_publish")

    def _make_fitting(self, dataset: GraphDataset, auxiliary: TableAddress, kept: TableAddress) -> None:
        """Create an empty auxiliary table if the refresh needed none and the previous one has other columns.

        After a change of the keys or of the sequence's type, deletes could not be recorded in the previous columns.
        """
        schema = self.store.schema(kept)
        if dataset.cdc is None or schema is None or self.store.exists(auxiliary):
            return
        stored = {field.name: field for field in StructType.fromJson(json.loads(schema)).fields}
        target = CdcTarget.of(dataset.cdc)
        wanted = target.auxiliary_schema.fields
        if any(field.name not in stored or stored[field.name].dataType != field.dataType for field in wanted):
            create_auxiliary_table(session_for(self.store.spark, {}), auxiliary, target)

    def _published(self, dataset: GraphDataset, mark: Rebuild) -> Rebuild:
        if mark.backup is not None:
            self._history.publish(dataset, mark)
            KeptQuarantine(store=self.store, graph=self.graph, dataset=dataset, rebuild=mark).keep()
        mark = replace(mark, published=True)
        self._marks.write(dataset.name, mark)
        failpoint("rebuilds.after_mark")
        return mark

    def _finish(self, dataset: GraphDataset, mark: Rebuild) -> None:
        """Make a published rebuild's generations current, retire those of other flows, and delete the copy."""
        name, path = dataset.name, self.store.path(dataset.spec)
        generations = GenerationStore(self.store.storage, self.clock)
        for manifest in generations.list_of(name):  # including flows that are not in the code at present
            number, current = building_of(manifest, mark), manifest.in_state(GenerationState.CURRENT)
            if number is not None:
                mark_table(self.store.storage, path, name, manifest.flow, number)
                generations.promote(name, manifest.flow, number)
                failpoint("rebuilds.after_promote")
            elif current is not None and current.fingerprint != mark.generation_mark:
                mark_table(self.store.storage, path, name, manifest.flow, current.number)
                generations.retire(name, manifest.flow, BY_REFRESH)
        self._delete_copies(name)
        self._marks.write(name, replace(mark, finished=True))

    def _delete_copies(self, name: QualifiedName, *, besides: int | None = None) -> None:
        storage = self.store.storage
        folder = self.store.layout.rebuilds(name)
        for number in storage.list_names(folder):
            if number.isdecimal() and int(number) != besides:
                storage.delete_tree(f"{folder}/{number}")

    def _replace(self, dataset: GraphDataset, source: TableAddress, target: TableAddress, mark: Rebuild) -> None:
        """Replace the target's rows and columns with the source's, in one idempotent commit."""
        application = self._application(dataset, mark)
        session = session_for(self.store.spark, {})
        if self.store.exists(target):  # only the rebuild may have created an auxiliary table
            support_types(session, target, session.read.format("delta").load(str(source.path)).schema)
        overwrite_table(session, source, target, Batch(application_id=application, number=mark.number))

    def _has_rebuild(self, address: TableAddress, dataset: GraphDataset, mark: Rebuild) -> bool:
        """Whether the copy has replaced a table's rows; False if the table's log no longer has the commit."""
        history = CommitHistory(self.store.storage, str(address.path))
        application = self._application(dataset, mark)
        return bool(history.versions) and history.last_taken([application], history.versions[-1]) is not None

    def _application(self, dataset: GraphDataset, mark: Rebuild) -> str:
        return Rebuild.application(self.pipeline, dataset.name, mark.identifier)
