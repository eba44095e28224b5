"""A decided rewind: what becomes of each table and each flow."""

from __future__ import annotations

from dataclasses import dataclass

from framework.checkpoints.rewinds import RewindRefusal, RewoundFlow, RewoundTable, StoredRewind
from framework.engine.delta.restored_rows import RestoredRows
from framework.foundation.names import QualifiedName
from framework.recovery.rewind.point_in_time import PointInTime


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRewind:
    """A table that goes back.

    Args:
        table: what is restored; nothing if the version is the newest one.
        auxiliary: what is restored of its auxiliary table; None if that stays.
        time_ms: when the version was committed.
        rows: the rows before and after; None if the log no longer has the version.
    """

    table: RewoundTable
    auxiliary: RewoundTable | None
    time_ms: int
    rows: RestoredRows | None

    @property
    def is_restored(self) -> bool:
        """Whether rows of the table itself change."""
        return self.table.version != self.table.before


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRewind:
    """A flow that goes back.

    Args:
        flow: its new generation.
        reads: where it reads on, in words, for each of its sources.
    """

    flow: RewoundFlow
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """What a rewind does.

    Args:
        moment: the moment that was asked for.
        chosen: the tables that were asked for.
        tables: the tables whose rows change.
        flows: the flows that get a new checkpoint.
        computed: materialized views that the next update computes anew.
        replays: the replays of quarantined rows that are undone.
        resets: the flows whose resets wait, and are given up.
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
        """Whether nothing happened since."""
        return not self.tables and not self.flows

    @property
    def stored_tables(self) -> tuple[RewoundTable, ...]:
        """All tables to restore, the auxiliary table of a target before the target."""
        pairs = ((each.auxiliary, each.table) for each in self.tables)
        return tuple(table for pair in pairs for table in pair if table is not None and table.version != table.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandonment:
    """The effect of giving up a rewind.

    Args:
        rewind: the rewind, as it is stored.
        obstacles: why it can't be finished; () if it can.
        rest: what is done all the same; None if nothing was changed yet: then all stays as it is.
    """

    rewind: StoredRewind
    obstacles: tuple[RewindRefusal, ...]
    rest: StoredRewind | None

    @property
    def rewound(self) -> tuple[QualifiedName, ...]:
        """The tables that go back, or whose flows do."""
        if self.rest is None:
            return ()
        names = {*(each.dataset for each in self.rest.tables), *(each.dataset for each in self.rest.flows)}
        return tuple(sorted(names))
