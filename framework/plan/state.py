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
    """Why what is stored can't be read or written: the condition of an error, and its fields as texts."""

    condition: str
    fields: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, error: OperationError) -> StateFault:
        """Return the fault that an error reports."""
        return cls(condition=error.condition, fields=tuple((name, str(text)) for name, text in error.fields.items()))

    def error(self, location: SourceLocation | None = None) -> OperationError:
        """Return the error, at a line of the code."""
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
        repeats: whether rows are in the target twice after that roll-back.
        query: what the checkpoint holds of the query that wrote it; None if unknown.
        misplaced: a source and the one at whose position its query now reads it, in the unpublished rebuild if there is
            one; None if each has its place.
        damages: the damage of its checkpoint.
        gaps: the sources that no longer hold the checkpoint's position.
        rebuild_gaps: those in which something else is in the place of what the unpublished rebuild has read.
        resume: for each source, the start that continues where the checkpoint ends; () if one is unknown.
        removed: what its sources have deleted after it was read, as a clause; empty if nothing is gone.
        former: flows that no longer write to the target of a flow that appends, where rows of them are: one of them may
            be the same flow under another name. Before its first run all of them, later those that have written since
            it did, unless it has nothing to read.
        changed_kind: whether it is a stream and its current generation is of a single run over a batch, or the other
            way round: their positions, and the numbers of their batches, have nothing to do with each other.
        deleted: whether the checkpoint of the current generation, or a part of it, was deleted, or is an older copy:
            the table has batches of it that it does not have.
        begins_late: whether it would pass over rows, or read earlier ones, if it began again: its code begins with new
            rows only, or its generation has a start of its own.
        went_back: what says that an older copy of the table is in its place than the one that the generation goes on
            in, as a clause; empty if none is.
        moved_sink: whether its sink has another path, table or topic than when the generation last ended.
        unknown_rows: whether a target that the flow appends to has rows of a flow whose checkpoint is not here:
            before its first run at any time, later since it last ran.
        rewound: whether a rewind of which this storage does not know has undone rows of the flow.
        restarted: whether the flow has appended to its table since with a generation that this storage does not have.
        refreshed: whether a full refresh of which this storage does not know has replaced the rows of that table since.
        held: why an operator does not want the flow to run; empty if it may.
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
        other_owner: the owner as text; None if it is this pipeline.
        advice: what else may be done about the other owner, as a sentence after a blank; empty if there is nothing.
        elsewhere: the folder of another table, to which the dataset's flows have written since; empty without one.
        other_storage: another storage that writes to the table, as text; empty without one.
        kind: how the rows came into it; None if unknown.
        definition: hash of the table's last applied definition; None if it is unknown or has to be applied again.
        computed_from: for a materialized view, the fingerprint of code and inputs that its rows
            were computed from; None if unknown.
        append_only: whether no commit may remove rows of it, so that a full refresh can't replace them.
        rebuilding: number of an unpublished rebuild; None without one.
        last_rebuild: the highest number ever assigned to a rebuild; 0 for none.
        keeps_history: whether the unpublished rebuild gets the rows back that the sources no longer have.
        change: how its columns become those of its definition, without the hidden one of AUTO CDC; None if unknown.
        files: the number of its files; None if that is not known without a look at all of its log.
        size_bytes: the size of its files; None as before.
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
    """All tables and flows by name; tables and flows without an entry do not exist.

    `root` is the folder of the storage.
    `left` has the tables of this pipeline that no module declares any more, each with the reason why a
    prune keeps it (None: a prune drops it).
    `wanted_definitions` has the hashes of the declared definitions. `computable_from` has the
    fingerprints of the views' code and current inputs (None: treated as changed).
    `unread` has the datasets whose table or checkpoints can't be read, `waits` those whose state can't be read because
    they read one of these. `unwritable` has the datasets whose table or checkpoints this process can't write, `fault`
    says why it can't write the storage itself. `warnings` are faults that stop nothing.
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
