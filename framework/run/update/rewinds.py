"""Rewinds: tables are restored to earlier versions, and their flows get the matching checkpoints.

The effects in order, and why a crash after each is safe. From the first effect on, no update, reset or replay runs
before the rest is done: the next update or rewind does it first, and everything else is refused.

1. The decision is written: the version of each table, and the batch of each flow. Nothing has changed yet.
2. For each table, a transaction of each flow names the generation that continues it; Delta applies it once. An older
   copy of the storage does not have this generation, so its flows can't continue from here on. The table is then
   restored in one commit that names the rewind. A table with that commit is not restored again.
3. The new checkpoint of each flow is copied from the old one, up to its batch. The copy is repeated after a crash,
   because no manifest refers to it. An offset in a restored table becomes the version after its restore, so that its
   reader skips the undone commits and the restore itself.
4. Rows of undone batches leave the quarantine, and rows replayed into undone commits are open again. Both commits
   have no effect when repeated. Pending resets of flows into rewound tables are deleted: they start at a position in
   the undone rows, and the next update would execute them.
5. Each flow begins the generation with its new checkpoint. A manifest with that generation is not changed again.
   The generation has a new identifier in Delta's transactions: a restore keeps the transactions of the undone
   commits, so with the old identifier the table would skip the batches that are read again.
6. Full refreshes begin for the tables that a user gave up because they can't be restored. A begun refresh is not begun
   again. No update runs before the decision is deleted, so none of their flows continues from the previous rows.
7. The decision is deleted. Nothing is left.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

from delta import DeltaTable
from pyspark.sql import functions as F

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_offsets
from framework.checkpoints.rebuilds import Rebuild, RebuildStore, last_number
from framework.checkpoints.reset_requests import ResetRequests
from framework.checkpoints.rewinds import RewindStore, RewoundFlow, RewoundTable, StoredRewind
from framework.checkpoints.table_marks import read_mark, write_mark
from framework.checkpoints.truncation import copy_until
from framework.engine.delta.stored_version import restore
from framework.engine.delta.transaction_identifiers import CONFLICTS, USER_METADATA
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.record.drafts import user_action
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.run.flows.state.generation_numbers import name_generation, rewind_application
from framework.run.flows.streaming_query import session_for
from framework.run.quarantine.table import QuarantineTable, is_of
from framework.run.tables.marked_tables import mark_table
from framework.run.tables.table_store import TableStore
from framework.run.update.rewind_refusals import check_finishable, restore_version
from framework.sources.delta.source import NextVersion, moved_offset
from framework.sources.kinds import KINDS
from framework.sources.port import RewindableSource, RewindPosition

_Result = TypeVar("_Result")
_TRIES = 4

ACTION = "REWIND"
"""The action name in a rewind's events."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewinds:
    """Executes decided rewinds; the caller holds the update lock."""

    store: TableStore
    clock: Clock

    @property
    def _stored(self) -> RewindStore:
        return RewindStore(self.store.storage)

    def finish_begun(self) -> StoredRewind | None:
        """Finish the rewind that a crash interrupted, and return it; None if there is none.

        Raises:
            OperationError: REWIND_OF_OTHER_STORAGE; REWIND_NOT_FINISHABLE, in which case no further table is restored.
        """
        rewind = self._stored.read()
        if rewind is not None:
            self._check_storage(rewind)
            check_finishable(self.store, rewind)
            self._finish(rewind)
        return rewind

    def _check_storage(self, rewind: StoredRewind) -> None:
        for table in rewind.tables:
            other = self.store.other_storage(table.dataset, table.path)
            if other:
                raise OperationError(
                    "REWIND_OF_OTHER_STORAGE",
                    to=rewind.to,
                    dataset=table.dataset,
                    path=table.path,
                    other=other,
                    statement=TableAddress(path=table.path).given_to(self.store.storage.root),
                )

    def execute(self, rewind: StoredRewind) -> None:
        """Execute a rewind whose tables, files and checkpoints were checked, while no other is in progress."""
        self._record(rewind, "BEGUN")
        self._stored.write(rewind)
        failpoint("rewinds.after_mark")
        self._finish(rewind)

    def abandon(self, rewind: StoredRewind, rest: StoredRewind | None) -> None:
        """Give up a rewind that can't be finished.

        Args:
            rewind: the rewind.
            rest: the part that is still done; None if nothing was changed yet, so that nothing has to be done.
        """
        self._record(rest or rewind, "ABANDONED")
        if rest is None:
            self._stored.delete()
            return
        self._stored.write(rest)
        failpoint("rewinds.after_abandon")
        self.finish_begun()

    def _finish(self, rewind: StoredRewind) -> None:
        restored: dict[str, int] = {}
        for table in rewind.tables:
            if not table.auxiliary:
                _retried(partial(self._name_generations, table, rewind), rewind)
                failpoint("rewinds.after_names")
            version = _retried(partial(self._restore, table, rewind), rewind)
            failpoint("rewinds.after_restore")
            # A restored table has the properties of that time. A crash here is safe, unless another storage owned the
            # table then: in that case it is refused, and the user has to name its owner again.
            self.store.mark(table.dataset, table.path)
            if table.table_id is not None:
                restored[table.table_id] = version
            failpoint("rewinds.after_table")
        for flow in rewind.flows:
            self._copy(flow, restored)
            failpoint("rewinds.after_checkpoint")
        self._clear_quarantine(rewind)
        resets = ResetRequests(self.store.storage, self.clock)
        rewound = {*(each.dataset for each in rewind.tables), *(each.dataset for each in rewind.flows)}
        for request in resets.pending_for(rewound):
            resets.drop(request)
        failpoint("rewinds.after_quarantine")
        paths = {table.dataset: table.path for table in rewind.tables if not table.auxiliary}
        for flow in rewind.flows:
            self._begin_generation(flow, rewind, paths.get(flow.dataset))
            failpoint("rewinds.after_generation")
        for name in rewind.refreshed:
            self._begin_refresh(name)
            failpoint("rewinds.after_refresh")
        self._record(rewind, "DONE")
        self._stored.delete()

    def _restore(self, table: RewoundTable, rewind: StoredRewind) -> int:
        """Restore a table, and return the version of the restoring commit."""
        done = restore_version(self.store.storage, table, rewind)
        if done is not None:
            return done
        flows = [str(flow.flow) for flow in rewind.flows if flow.dataset == table.dataset]
        mark = json.dumps({"sluice": {"rewind": rewind.rewind_id, "flows": flows}})
        session = session_for(self.store.spark, {USER_METADATA: mark})
        if table.version is None:
            nothing = DeltaTable.forPath(session, table.path).toDF().limit(0)
            nothing.write.format("delta").mode("overwrite").save(table.path)
        else:
            restore(session, self.store.storage, table.path, table.version)
        done = restore_version(self.store.storage, table, rewind)
        assert done is not None, table.path
        return done

    def _name_generations(self, table: RewoundTable, rewind: StoredRewind) -> None:
        """Commit the number of each flow's new generation: a restore adds no transactions, and keeps earlier ones."""
        for flow in rewind.flows:
            if flow.dataset == table.dataset:
                session = session_for(self.store.spark, {})
                name_generation(session, table.path, rewind_application(flow.flow), flow.generation)

    def _begin_generation(self, flow: RewoundFlow, rewind: StoredRewind, path: str | None) -> None:
        """Make a flow's new generation current; its mark excludes older copies of its present table."""
        storage = self.store.storage
        GenerationStore(storage, self.clock).adopt(
            flow.dataset,
            flow.flow,
            flow.generation,
            reason=f"rewound to {rewind.to} by sluice rewind",
            start=flow.start,
            after_batch=flow.batch,
            rewound_to=flow.origin or 0,
            completed=flow.completed,
        )
        mark = read_mark(storage, flow.dataset, flow.flow)
        if path is not None:
            mark_table(storage, path, flow.dataset, flow.flow, flow.generation)
        elif mark is not None and mark.generation >= flow.before:  # the table does not change
            write_mark(storage, flow.dataset, flow.flow, replace(mark, generation=flow.generation))

    def _begin_refresh(self, name: QualifiedName) -> None:
        """Mark a full refresh as begun, unless one is already; the next update executes it."""
        marks = RebuildStore(self.store.storage)
        last = marks.read(name)
        if last is None or last.finished:
            identifier = "" if last is None else last.identifier
            number = last_number(last, GenerationStore(self.store.storage).list_of(name)) + 1
            marks.write(name, Rebuild(number=number, identifier=identifier))

    def _copy(self, flow: RewoundFlow, restored: Mapping[str, int]) -> None:
        """Write the checkpoint of a flow's new generation, unless the generation has begun."""
        storage = self.store.storage
        generations = GenerationStore(storage)
        if generations.manifest(flow.dataset, flow.flow).find(flow.generation) is not None:
            return
        target = generations.path(flow.dataset, flow.flow, flow.generation)
        if flow.batch is None or flow.origin is None:
            storage.delete_tree(target)
            return
        source = generations.path(flow.dataset, flow.flow, flow.origin)
        offsets = read_offsets(storage, source, flow.batch)
        moved = _moved(offsets, restored)
        copy_until(storage, source, target, flow.batch, moved)
        position = RewindPosition(storage=storage, checkpoint=target, offsets=offsets)
        for kind in KINDS:
            if isinstance(kind, RewindableSource):
                kind.truncate(position)

    def _clear_quarantine(self, rewind: StoredRewind) -> None:
        """Delete the quarantined rows of undone batches, and reopen the rows of undone replays."""
        table = QuarantineTable(storage=self.store.storage, session=session_for(self.store.spark, {}))
        if not table.exists():
            return
        for flow in rewind.flows:
            # Of any pipeline: another pipeline may finish the rewind, and the names of flow and dataset are unique.
            is_undone = _is_undone(flow)
            if not table.read().where(is_undone).isEmpty():
                table.table().delete(is_undone)
        if rewind.replays:
            nothing = F.lit(None)
            table.table().update(
                F.col("replay").isin(*rewind.replays),
                {"replay": nothing.cast("string"), "replayed_at": nothing.cast("timestamp")},
            )

    def _record(self, rewind: StoredRewind, status: str) -> None:
        """Record the rewind in the event log, before anything changes and after it is done."""
        origin = Origin.of(self.store.pipeline, self.store.storage.root, str(uuid.uuid4()))
        tables = [table for table in rewind.tables if not table.auxiliary]
        text = f"Rewind of {', '.join(_names(rewind)) or 'nothing'} to {rewind.to}: {status}."
        more: dict[str, Any] = {
            "status": status,
            "to": rewind.to,
            "before": {str(table.dataset): table.before for table in tables},
            "after": {str(table.dataset): table.version for table in tables},
            "refreshed": list(map(str, rewind.refreshed)),
            "flows": [{**asdict(flow), "dataset": str(flow.dataset), "flow": str(flow.flow)} for flow in rewind.flows],
        }
        with EventLog(self.store.storage, origin, self.clock) as log:
            log.record(
                user_action(action=ACTION, user_name=rewind.user, message=text, reason=rewind.why or None, more=more)
            )


def _retried(work: Callable[[], _Result], rewind: StoredRewind) -> _Result:
    """Retry idempotent work on a table when another writer's commit conflicts.

    Raises:
        OperationError: REWIND_UNFINISHED, if every attempt ends in a conflict.
    """
    for _ in range(_TRIES):
        with suppress(*CONFLICTS):
            return work()
    raise OperationError("REWIND_UNFINISHED", to=rewind.to, begun_at=rewind.begun_at)


def _names(rewind: StoredRewind) -> list[str]:
    return sorted({*(str(each.dataset) for each in rewind.tables), *(str(each.dataset) for each in rewind.flows)})


def _moved(offsets: tuple[str, ...], restored: Mapping[str, int]) -> dict[int, str]:
    """Return the new offsets, after the restore, of sources in restored tables, by the number of the source."""
    found = {}
    for number, offset in enumerate(offsets):
        place = NextVersion.of(offset)
        if place is not None and place.table_id in restored:
            found[number] = moved_offset(offset, restored[place.table_id] + 1)
    return found


def _is_undone(flow: RewoundFlow) -> Any:
    """Return the filter for quarantined rows whose batches a rewind undoes."""
    is_ours = is_of(flow.dataset, flow.flow)
    if flow.origin is None:
        return is_ours
    is_same = F.col("generation") == flow.origin
    # Rows kept by a full refresh belong to no batch.
    undone = is_same & (F.col("batch") > (-1 if flow.batch is None else flow.batch))
    if flow.completed:
        undone = F.lit(False)  # noqa: FBT003 - a literal column
    if flow.until_ms is None:
        return is_ours & (undone | (F.col("generation") > flow.origin))
    # A roll-back makes an earlier generation current again, so a higher number does not mean a later batch.
    undone |= ~is_same & (F.col("quarantined_at") > F.timestamp_millis(F.lit(flow.until_ms)))
    for generation, batch in flow.undone:
        undone |= (F.col("generation") == generation) & (F.col("batch") >= batch)
    return is_ours & undone
