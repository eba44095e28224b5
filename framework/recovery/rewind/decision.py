"""The decision of a rewind: versions, batches and new generations, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import Generation, GenerationState
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.rebuilds import Rebuild
from framework.checkpoints.reset_requests import ResetRequests
from framework.checkpoints.rewinds import RewoundFlow, RewoundTable
from framework.engine.delta.stored_version import restored_rows
from framework.foundation.clock import SystemClock
from framework.foundation.errors import RequestErrors, SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.recovery.rewind.checks import Checks
from framework.recovery.rewind.consistent_versions import (
    ConsistentVersions,
    check_began,
    check_clock,
    first_choice,
    flows_of,
)
from framework.recovery.rewind.plan import FlowRewind, RewindPlan, TableRewind
from framework.recovery.rewind.point_in_time import PointInTime
from framework.recovery.rewind.positions import FlowPosition, Positions, batches_after, is_stream
from framework.recovery.rewind.scope import scope_of
from framework.recovery.rewind.tables import StoredTable, auxiliary_at
from framework.run.flows.state.generation_numbers import latest_number
from framework.run.tables.table_store import TableStore
from framework.sources.delta.log import read_tip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """Decides one rewind.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        moment: the moment to rewind to.
    """

    graph: DataflowGraph
    store: TableStore
    moment: PointInTime

    def plan(self, chosen: Sequence[QualifiedName]) -> RewindPlan:
        """Plan the rewind, and check that it can be done.

        Args:
            chosen: the requested tables.

        Raises:
            UserError: see `Rewinder.plan`.
            OperationError: TABLE_NOT_OWNED, TABLE_OF_OTHER_STORAGE.
        """
        named = self._tables(chosen)
        check_clock(named.values(), self.moment)
        check_began(named.values(), self.moment)
        changed = [name for name, table in named.items() if self._is_changed(table)]
        paths = {self.store.path(each.spec): each.name for each in self.graph.datasets if each.is_table}
        scope = scope_of(self.graph, chosen, changed, paths)
        tables = self._tables(scope.tables)
        check_clock(tables.values(), self.moment)
        checks = Checks(graph=self.graph, store=self.store, positions=self._positions)
        _raise([*checks.of_rebuilds(scope.tables), *checks.of_tables(tables.values())])
        cut = ConsistentVersions(graph=self.graph, positions=self._positions, tables=tables, moment=self.moment)
        cut.find()
        rewound = tuple(each for name, table in tables.items() if (each := self._table(table, cut)) is not None)
        restored = {each.table.table_id: each.table.dataset for each in rewound if each.is_restored}
        found = tuple(self._flows(tables, cut, restored))
        _raise([*checks.of_versions(rewound), *checks.of_flows(found, restored)])
        texts = {flow.spec.name: checks.reads(flow, position, restored) for flow, position, _ in found}
        changes = {*(each.table.dataset for each in rewound), *(each.dataset for _, _, each in found)}
        resets = ResetRequests(self.store.storage, SystemClock()).pending_for(changes)
        return RewindPlan(
            moment=self.moment,
            chosen=tuple(chosen),
            tables=rewound,
            flows=tuple(FlowRewind(flow=each, reads=texts[each.flow]) for _, _, each in found),
            computed=scope.computed,
            replays=tuple(replay for table in tables.values() for replay in self._replays(table, cut)),
            resets=tuple(each.flow for each in resets),
        )

    @property
    def _positions(self) -> Positions:
        return Positions(pipeline=self.graph.pipeline, storage=self.store.storage)

    def _tables(self, names: Sequence[QualifiedName]) -> dict[QualifiedName, StoredTable]:
        """Read the logs of tables; missing tables are left out.

        Raises:
            OperationError: TABLE_NOT_OWNED, TABLE_OF_OTHER_STORAGE.
        """
        found = {}
        for name in names:
            dataset = self.graph.dataset(name)
            assert dataset is not None  # the scope contains only names of the graph
            table = StoredTable.of(dataset, self.store)
            if table is not None:
                self.store.check_owner(dataset.spec, self.store.address(dataset.spec))
                found[name] = table
        return found

    def _is_changed(self, table: StoredTable) -> bool:
        return table.history.changes_between(first_choice(table, self.moment).version, table.tip)

    def _table(self, table: StoredTable, cut: ConsistentVersions) -> TableRewind | None:
        """Return the rewind of a table; None if its rows and those of its auxiliary table stay."""
        name = table.dataset.name
        moment = cut.moment_of(name)
        target = RewoundTable(
            dataset=name,
            path=table.path,
            table_id=table.table_id,
            before=table.tip,
            version=moment.version if cut.is_restored(name) else table.tip,
        )
        other = auxiliary_at(table, moment)
        if not other.is_restored and target.version == target.before:
            return None
        rows = restored_rows(self.store.spark, self.store.storage, table.path, target.version)
        return TableRewind(
            table=target,
            auxiliary=self._auxiliary(table, other.version) if other.is_restored else None,
            time_ms=table.history.time_ms(moment.version),
            rows=rows,
        )

    def _auxiliary(self, table: StoredTable, version: int | None) -> RewoundTable:
        assert table.auxiliary is not None  # it has rows to remove
        tip = read_tip(self.store.storage, table.auxiliary_path)
        return RewoundTable(
            dataset=table.dataset.name,
            path=table.auxiliary_path,
            table_id=None if tip is None else tip.table_id,
            before=table.auxiliary.versions[-1],
            version=version,
            auxiliary=True,
        )

    def _flows(
        self,
        tables: Mapping[QualifiedName, StoredTable],
        cut: ConsistentVersions,
        restored: Mapping[str | None, QualifiedName],
    ) -> Iterator[tuple[GraphFlow, FlowPosition, RewoundFlow]]:
        """Yield the flows that get a new generation, each with its position."""
        for table in tables.values():
            for flow in flows_of(self.graph, table):
                position = cut.position(flow)
                current = self._positions.manifest(table.dataset.name, flow.spec.name).in_state(GenerationState.CURRENT)
                if current is None or self._stays(
                    flow, position, table=table, current=current, cut=cut, restored=restored
                ):
                    continue
                number = 1 + latest_number(
                    self.store.storage,
                    self.graph.pipeline,
                    table.dataset.name,
                    flow.spec.name,
                    path=None,
                    tip=read_tip(self.store.storage, table.path),
                )
                origin = position.generation
                yield (
                    flow,
                    position,
                    RewoundFlow(
                        dataset=table.dataset.name,
                        flow=flow.spec.name,
                        before=current.number,
                        generation=number,
                        origin=None if origin is None else origin.number,
                        batch=position.batch if is_stream(flow) else None,
                        until_ms=cut.moment_of(table.dataset.name).time_ms,
                        undone=tuple(self._undone(flow, table, cut)),
                        start=None if origin is None else origin.start,
                        completed=self._has_completed(flow, position),
                    ),
                )

    def _stays(
        self,
        flow: GraphFlow,
        position: FlowPosition,
        *,
        table: StoredTable,
        current: Generation,
        cut: ConsistentVersions,
        restored: Mapping[str | None, QualifiedName],
    ) -> bool:
        """Whether a flow has done nothing since the moment, and reads no restored table."""
        name = flow.spec.name
        is_current = position.generation is not None and position.generation.number == current.number
        if is_stream(flow):
            path = GenerationStore(self.store.storage).path(table.dataset.name, name, current.number)
            progress = read_progress(self.store.storage, path)
            # A planned batch that has written nothing runs again, even with changed code.
            is_last = position.batch in {progress.last_commit_batch, progress.last_offset_batch}
            reads_restored = any(place.table_id in restored for place in position.places)
            return is_current and is_last and not reads_restored and not self._wrote_later(flow, table, current, cut)
        if not flow.spec.from_snapshots and position.is_done:
            # A later generation, such as one of an undone full refresh, may have rows in the quarantine.
            return is_current
        application = self._positions.application(flow, table.dataset, current)
        taken = table.history.last_taken([application], table.tip)
        return is_current and position.batch == (None if taken is None else taken[2])

    def _has_completed(self, flow: GraphFlow, position: FlowPosition) -> bool:
        """Whether a once flow had written all its data."""
        if not is_stream(flow):
            return position.is_done
        if position.generation is None or not position.generation.completed:
            return False
        return position.batch == read_progress(self.store.storage, position.checkpoint).last_commit_batch

    def _wrote_later(self, flow: GraphFlow, table: StoredTable, current: Generation, cut: ConsistentVersions) -> bool:
        application = self._positions.application(flow, table.dataset, current)
        version = cut.moment_of(table.dataset.name).version
        later = (table.history.commit(number) for number in table.history.versions if number > version)
        # A complete snapshot deletes unconfirmed rows under its own application ids (`cdc.unconfirmed`).
        is_confirmed = any(name.startswith(f"{application}:") for commit in later for name in commit.batches)
        return is_confirmed or bool(batches_after(table.history, application, version))

    def _undone(self, flow: GraphFlow, table: StoredTable, cut: ConsistentVersions) -> Iterator[tuple[int, int]]:
        """Yield the generations with batches in the undone commits, each with its first undone batch."""
        version = cut.moment_of(table.dataset.name).version
        published = self._published(table, version)
        for generation in self._positions.manifest(table.dataset.name, flow.spec.name).generations:
            application = self._positions.application(flow, table.dataset, generation)
            batches = batches_after(table.history, application, version)
            if generation.fingerprint in published:
                yield generation.number, 0
            elif batches:
                yield generation.number, min(batches)

    def _published(self, table: StoredTable, version: int) -> frozenset[str]:
        """Return the marks of full refreshes that a table got after a version; their commits have no batches."""
        application = Rebuild.application(self.graph.pipeline, table.dataset.name)
        found: dict[bool, set[int]] = {True: set(), False: set()}
        for each in map(table.history.commit, table.history.versions):
            found[each.version > version].update(
                number
                for name, number in each.batches.items()
                if name == application or name.startswith(f"{application}:")
            )
        return frozenset(Rebuild(number=number).generation_mark for number in found[True] - found[False])

    def _replays(self, table: StoredTable, cut: ConsistentVersions) -> Iterator[str]:
        """Yield the replays of quarantined rows in the undone commits."""
        prefix = f"sluice:{self.graph.pipeline}:replay:"
        version = cut.moment_of(table.dataset.name).version
        for number in table.history.versions:
            for application in table.history.commit(number).batches if number > version else ():
                if application.startswith(prefix):
                    yield application.removeprefix(prefix)


def _raise(faults: Sequence[SluiceError]) -> None:
    if faults:
        raise faults[0] if len(faults) == 1 else RequestErrors(faults)
