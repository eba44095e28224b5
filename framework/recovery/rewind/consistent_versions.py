"""Consistent versions of the rewound tables, from which each flow can continue without a gap or a repeat.

A restored table has new commits after the undone ones. A flow that reads the table as a stream has an offset in its
versions, and can only continue if the offset is at the end of the restored version: the offset then becomes the version
after the restore. If the flow was behind at that moment, the table is restored to an earlier version. If the flow was
ahead, or in the middle of a commit, the flow's own table is. The result is the last consistent state at or before the
moment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from framework.declare.specs import DatasetKind
from framework.foundation.clock import milliseconds
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.recovery.rewind.point_in_time import PointInTime, time_text
from framework.recovery.rewind.positions import FlowPosition, Positions, TableVersion, is_stream
from framework.recovery.rewind.tables import StoredTable, auxiliary_at

_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConsistentVersions:
    """Finds the consistent versions of tables at a moment.

    Args:
        graph: the pipeline's graph.
        positions: reads the positions of flows.
        tables: the rewound tables, by name.
        moment: the moment.
    """

    graph: DataflowGraph
    positions: Positions
    tables: Mapping[QualifiedName, StoredTable]
    moment: PointInTime
    _chosen: dict[QualifiedName, TableVersion] = field(default_factory=dict)

    def moment_of(self, name: QualifiedName) -> TableVersion:
        """Return the chosen version of a table."""
        return self._chosen[name]

    def find(self) -> None:
        """Choose the version of each table.

        Raises:
            UserError: REWIND_TOO_EARLY, REWIND_NOT_CONSISTENT.
        """
        for name, table in self.tables.items():
            self._chosen[name] = first_choice(table, self.moment)
        for _ in range(_MOST_STEPS):
            if not self._lowers_one():
                return
        raise UserError("REWIND_NOT_CONSISTENT", to=self.moment.text, flow="its flows")

    def position(self, flow: GraphFlow) -> FlowPosition:
        """Return the position of a flow at the chosen version of its table."""
        table = self.tables[flow.spec.target]
        return self.positions.at(flow, table.dataset, table.history, self._chosen[flow.spec.target])

    def is_restored(self, name: QualifiedName) -> bool:
        """Whether restoring the chosen version changes rows of a table."""
        table = self.tables[name]
        return table.history.changes_between(self._chosen[name].version, table.tip)

    def _lowers_one(self) -> bool:
        """Lower the version of one table if the versions are inconsistent; return whether one was lowered."""
        for name, table in self.tables.items():
            for flow in flows_of(self.graph, table):
                position = self.position(flow)
                undone = self._unadopted(flow, table, position)
                if undone is not None:
                    return self._lower(name, undone - 1)
                if is_stream(flow) and self._lowers_for(flow, position):
                    return True
            conflict = auxiliary_at(table, self._chosen[name]).conflict
            if conflict is not None:
                return self._lower(name, conflict - 1)
        return False

    def _unadopted(self, flow: GraphFlow, table: StoredTable, position: FlowPosition) -> int | None:
        """Return the restore of an earlier rewind, if the flow had no new checkpoint after it yet; else None."""
        last, history = self._chosen[table.dataset.name].version, table.history
        begun_ms = milliseconds(position.generation.begun_at) if position.generation is not None else 0
        for version in reversed(history.versions):
            if version > last:
                continue
            if version == position.commit:
                return None
            mark = history.commit(version).mark
            if "rewind" in mark:
                is_ours = str(flow.spec.name) in mark.get("flows", ())
                return version if is_ours and begun_ms < history.time_ms(version) else None
        return None

    def _lowers_for(self, flow: GraphFlow, position: FlowPosition) -> bool:
        by_id = {table.table_id: name for name, table in self.tables.items()}
        for place in position.places:
            name = by_id.get(place.table_id)
            if name is None or not self.is_restored(name):
                continue
            version, history = self._chosen[name].version, self.tables[name].history
            if place.version is None:
                return self._lower_before(flow, position)
            if place.version > version + 1 and history.changes_between(version, place.version - 1):
                return self._lower_before(flow, position)
            if place.version <= version and history.changes_between(place.version - 1, version):
                return self._lower(name, place.version - 1)
        return False

    def _lower_before(self, flow: GraphFlow, position: FlowPosition) -> bool:
        """Choose the version of the flow's table before its last batch."""
        if position.commit is None:
            raise UserError("REWIND_NOT_CONSISTENT", to=self.moment.text, flow=flow.spec.name)
        return self._lower(flow.spec.target, position.commit - 1)

    def _lower(self, name: QualifiedName, version: int) -> bool:
        table = self.tables[name]
        if version not in table.history.versions:
            raise _too_early(table, self.moment)
        self._chosen[name] = TableVersion(version=version, time_ms=table.history.time_ms(version + 1) - 1)
        return True


def flows_of(graph: DataflowGraph, table: StoredTable) -> tuple[GraphFlow, ...]:
    """Return the flows with checkpoints into a table; a materialized view has none."""
    is_view = table.dataset.kind is DatasetKind.MATERIALIZED_VIEW
    return () if is_view else graph.flows_into(table.dataset.name)


def check_began(tables: Collection[StoredTable], moment: PointInTime) -> None:
    """Check that at least one table had begun at a moment: a pipeline can't be rewound to before its first update.

    Raises:
        UserError: REWIND_TOO_EARLY, for the oldest table.
    """
    if tables and all(table.history.version_at(moment.time_ms) is None for table in tables):
        raise _too_early(min(tables, key=lambda table: table.history.time_ms(table.history.versions[0])), moment)


def check_clock(tables: Collection[StoredTable], moment: PointInTime) -> None:
    """Check that the commit times determine which commits existed at a moment.

    Raises:
        UserError: REWIND_CLOCK_SET_BACK if the clock was set back while a table was written; REWIND_FILES_MISDATED.
    """
    first_ms = moment.time_ms if moment.begun_ms is None else min(moment.begun_ms, moment.time_ms)
    for table in tables:
        found = table.history.set_back(first_ms, moment.time_ms)
        if found is not None:
            before, after = map(time_text, found)
            raise UserError(
                "REWIND_CLOCK_SET_BACK", dataset=table.dataset.name, to=moment.text, before=before, after=after
            )
        commit = table.history.misdated(moment.time_ms)
        if commit is not None:
            raise UserError(
                "REWIND_FILES_MISDATED",
                dataset=table.dataset.name,
                to=moment.text,
                version=commit.version,
                begun=time_text(commit.begun_ms or 0),
                written=time_text(table.history.time_ms(commit.version)),
            )


def first_choice(table: StoredTable, moment: PointInTime) -> TableVersion:
    """Return the version of a table at a moment; for a table created later, its first version, without rows.

    Raises:
        UserError: REWIND_TOO_EARLY.
    """
    version = table.history.version_at(moment.time_ms)
    if version is None:
        first = table.history.versions[0]
        if first > 0 or table.history.commit(first).changes_data:
            raise _too_early(table, moment)
        version = first
    return TableVersion(version=version, time_ms=moment.time_ms)


def _too_early(table: StoredTable, moment: PointInTime) -> UserError:
    history = table.history
    return UserError(
        "REWIND_TOO_EARLY",
        dataset=table.dataset.name,
        to=moment.text,
        first=history.versions[0],
        time=time_text(history.time_ms(history.versions[0])),
    )
