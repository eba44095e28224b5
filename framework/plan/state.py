"""The stored state of a pipeline, as values for the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from framework.checkpoints.damage import Damage
from framework.checkpoints.operators import StoredQuery
from framework.foundation.errors import OperationError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.schema.change import SchemaChange
from framework.sources.port import Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFault:
    """Why stored state can't be read or written: the condition of an error, and its fields as texts."""

    condition: str
    fields: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, error: OperationError) -> StateFault:
        """Return the fault that an error reports."""
        return cls(condition=error.condition, fields=tuple((name, str(text)) for name, text in error.fields.items()))

    def error(self, location: SourceLocation | None = None) -> OperationError:
        """Return the error, located at a line of the code."""
        return OperationError(self.condition, location=location, **dict(self.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowState:
    """A flow's checkpoint.

    Args:
        generation: number of the current generation; None before the first.
        completed: whether a once flow's current generation has completed.
        building: number of the generation of an unpublished rebuild; None without one.
        drained: whether all current data of its sources has been read; False if unknown.
        latest: the highest number ever assigned to a generation; 0 for none.
        has_kept: whether it can be rolled back to an earlier generation.
        repeats: whether a roll-back to that generation writes rows twice.
        query: the query that wrote the checkpoint, as far as the checkpoint stores it; None if unknown.
        misplaced: a source, and the source whose position it would continue from, because the order of sources changed.
            It is about the unpublished rebuild if there is one. None if each source has its place.
        damages: the damage of its checkpoint.
        gaps: the sources that no longer hold the checkpoint's position.
        rebuild_gaps: the sources that no longer have what the unpublished rebuild read: other data is in its place.
        resume: for each source, the start that continues where the checkpoint ends; () if one is unknown.
        removed: the data that its sources deleted after it was read, as a clause; empty if nothing was deleted.
        former: flows that appended rows to the target and no longer write to it. One of them may be the same flow under
            its old name. Before the first run of this flow: all of them. Later: those that have written since its last
            run, unless this flow has nothing to read.
        changed_kind: whether it is a stream but its current generation ran once over a batch, or the other way round.
            Positions and batch numbers of the two are unrelated.
        deleted: whether all or a part of the current generation's checkpoint was deleted, or is an older copy: the
            table has batches that the checkpoint does not have.
        begins_late: whether a restart without a checkpoint would skip rows or read earlier ones: its code reads new
            rows only, or its generation has a start of its own.
        went_back: why the table is an older copy than the one that the generation continues in, as a clause; empty if
            it is not.
        moved_sink: whether the path, table or topic of its sink has changed since the generation last ended.
        unknown_rows: whether a target that the flow appends to has rows of a flow whose checkpoint is not here: rows of
            any time before its first run, later rows since its last run.
        rewound: whether a rewind that this storage has no record of has undone rows of the flow.
        restarted: whether the flow has since appended to its table with a generation that this storage does not have.
        refreshed: whether a full refresh that this storage has no record of has since replaced the rows of the table.
        held: why an operator has paused the flow; empty if it may run.
        finds_columns: whether its sources may have columns that are unknown until they are read.
    """

    generation: int | None = None
    completed: bool = False
    building: int | None = None
    drained: bool = False
    latest: int = 0
    has_kept: bool = False
    repeats: bool = False
    query: StoredQuery | None = None
    misplaced: tuple[str, str] | None = None
    damages: tuple[Damage, ...] = ()
    gaps: tuple[Gap, ...] = ()
    rebuild_gaps: tuple[Gap, ...] = ()
    resume: tuple[str, ...] = ()
    removed: str = ""
    former: tuple[QualifiedName, ...] = ()
    changed_kind: bool = False
    deleted: bool = False
    begins_late: bool = False
    went_back: str = ""
    moved_sink: bool = False
    unknown_rows: bool = False
    rewound: bool = False
    restarted: bool = False
    refreshed: bool = False
    held: str = ""
    finds_columns: bool = False


class TableKind(StrEnum):
    """How rows come into a table: replaced by a view's query, appended by flows, or merged by key."""

    MATERIALIZED_VIEW = "materialized view"
    STREAMING_TABLE = "streaming table"
    AUTO_CDC_TARGET = "AUTO CDC target"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A dataset's table.

    Args:
        exists: whether there is a table.
        path: the table's folder, whether or not it exists.
        other_owner: the other pipeline that owns the table, as text; None if this pipeline owns it.
        advice: further remedies for a table with another owner, as a sentence after a blank; empty if there are none.
        elsewhere: the folder of the other table that the dataset's flows have last written to; empty without one.
        other_storage: another storage that writes to the table, as text; empty without one.
        kind: how its rows were written; None if unknown.
        definition: hash of the table's last applied definition; None if unknown, or if it must be applied again.
        computed_from: for a materialized view, the fingerprint of the code and inputs that its rows were computed from;
            None if unknown.
        append_only: whether the table allows no commit that removes rows, so that a full refresh can't replace them.
        rebuilding: number of an unpublished rebuild; None without one.
        last_rebuild: the highest number ever assigned to a rebuild; 0 for none.
        keeps_history: whether the unpublished rebuild puts back the rows that the sources no longer have.
        change: how its columns change to match its definition, without AUTO CDC's hidden column; None if unknown.
        files: the number of its files; None if unknown without a scan of its whole log.
        size_bytes: the total size of its files; None in the same case.
    """

    exists: bool = False
    path: str = ""
    other_owner: str | None = None
    advice: str = ""
    elsewhere: str = ""
    other_storage: str = ""
    kind: TableKind | None = None
    definition: str | None = None
    computed_from: str | None = None
    append_only: bool = False
    files: int | None = None
    size_bytes: int | None = None
    rebuilding: int | None = None
    last_rebuild: int = 0
    keeps_history: bool = False
    change: SchemaChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The state of all tables and flows by name; a table or flow without an entry does not exist.

    Args:
        root: the folder of the storage.
        left: the tables of this pipeline that no module declares any more, each with the reason why a prune keeps it;
            None: a prune drops it.
        wanted_definitions: the hashes of the declared definitions.
        computable_from: the fingerprints of the views' code and current inputs; None: treated as changed.
        unread: the datasets whose table or checkpoints can't be read.
        waits: the datasets whose state can't be read because they read one of `unread`.
        unwritable: the datasets whose table or checkpoints this process can't write.
        fault: why this process can't write the storage itself; None if it can.
        warnings: faults that stop no step.
    """

    root: str = ""
    tables: Mapping[QualifiedName, TableState] = field(default_factory=dict)
    flows: Mapping[QualifiedName, FlowState] = field(default_factory=dict)
    left: Mapping[QualifiedName, str | None] = field(default_factory=dict)
    wanted_definitions: Mapping[QualifiedName, str] = field(default_factory=dict)
    computable_from: Mapping[QualifiedName, str | None] = field(default_factory=dict)
    unread: Mapping[QualifiedName, StateFault] = field(default_factory=dict)
    waits: Mapping[QualifiedName, tuple[QualifiedName, ...]] = field(default_factory=dict)
    unwritable: Mapping[QualifiedName, StateFault] = field(default_factory=dict)
    fault: StateFault | None = None
    warnings: tuple[StateFault, ...] = ()

    def table(self, name: QualifiedName) -> TableState:
        """Return the state of a dataset's table."""
        return self.tables.get(name, TableState())

    def flow(self, name: QualifiedName) -> FlowState:
        """Return the state of a flow's checkpoint."""
        return self.flows.get(name, FlowState())
