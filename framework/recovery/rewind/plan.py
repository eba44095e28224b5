"""The plan of a rewind: the effect on each table and each flow."""

from __future__ import annotations

from dataclasses import dataclass

from framework.checkpoints.rewinds import RewindRefusal, RewoundFlow, RewoundTable, StoredRewind
from framework.engine.delta.restored_rows import RestoredRows
from framework.foundation.names import QualifiedName
from framework.recovery.rewind.point_in_time import PointInTime


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRewind:
    """A table that is rewound.

    Args:
        table: the version to restore; nothing if it is the newest version.
        auxiliary: the version of its auxiliary table to restore; None if that stays.
        time_ms: when the version was committed.
        rows: the rows before and after; None if the version is no longer in the log.
    """

    table: RewoundTable
    auxiliary: RewoundTable | None
    time_ms: int
    rows: RestoredRows | None

    @property
    def is_restored(self) -> bool:
        """Whether the rows of the table itself change."""
        return self.table.version != self.table.before


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRewind:
    """A flow that is rewound.

    Args:
        flow: its new generation.
        reads: where it continues in each of its sources, in words.
    """

    flow: RewoundFlow
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """The effects of a rewind.

    Args:
        moment: the requested moment.
        chosen: the requested tables.
        tables: the tables whose rows change.
        flows: the flows that get a new checkpoint.
        computed: materialized views that the next update recomputes.
        replays: the undone replays of quarantined rows.
        resets: the flows with pending resets, which are given up.
    """

    moment: PointInTime
    chosen: tuple[QualifiedName, ...]
    tables: tuple[TableRewind, ...]
    flows: tuple[FlowRewind, ...]
    computed: tuple[QualifiedName, ...] = ()
    replays: tuple[str, ...] = ()
    resets: tuple[QualifiedName, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed since the moment."""
        return not self.tables and not self.flows

    @property
    def stored_tables(self) -> tuple[RewoundTable, ...]:
        """All tables to restore; an auxiliary table comes before its target."""
        pairs = ((each.auxiliary, each.table) for each in self.tables)
        return tuple(table for pair in pairs for table in pair if table is not None and table.version != table.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandonment:
    """The effect of giving up a rewind.

    Args:
        rewind: the stored rewind.
        obstacles: the reasons why it can't be finished; () if it can.
        rest: the part that is still executed; None if nothing was changed yet, so that everything stays as it is.
    """

    rewind: StoredRewind
    obstacles: tuple[RewindRefusal, ...]
    rest: StoredRewind | None

    @property
    def rewound(self) -> tuple[QualifiedName, ...]:
        """The tables that are rewound, or whose flows are."""
        if self.rest is None:
            return ()
        names = {*(each.dataset for each in self.rest.tables), *(each.dataset for each in self.rest.flows)}
        return tuple(sorted(names))
