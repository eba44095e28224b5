"""What an update finds on storage, as values for the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowState:
    """A flow's checkpoint.

    Args:
        generation: number of the current generation; None before the first.
        completed: whether a once flow's current generation has run to its end.
        building: number of the generation that a rebuild fills; None when there is no rebuild.
        drained: whether all that its sources hold now has been read; False when that can't be told.
        latest: the highest number ever given to a generation; 0 for none.
    """

    generation: int | None = None
    completed: bool = False
    building: int | None = None
    drained: bool = False
    latest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A dataset's table.

    Args:
        exists: whether there is a table.
        path: the folder it lies in, or would.
        other_owner: whom it belongs to, in words; None if it is this pipeline's.
        definition: hash of the definition the table was last brought to; None when not known.
        computed_from: for a materialized view, the fingerprint of code and inputs that its rows
            were computed from; None when not known.
        rebuilding: number of the rebuild that a full refresh began and did not finish.
        last_rebuild: the highest number ever given to a rebuild; 0 for none.
    """

    exists: bool = False
    path: str = ""
    other_owner: str | None = None
    definition: str | None = None
    computed_from: str | None = None
    rebuilding: int | None = None
    last_rebuild: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """All tables and flows by name; what is not listed does not exist.

    `left` are tables of this pipeline that no module declares any more, each with why a prune keeps it
    (None: a prune drops it).
    `wanted_definitions` and `computable_from` are what tables and views would be brought to now:
    hashes of the definitions, and fingerprints of code and present inputs (None: always changed).
    """

    tables: Mapping[QualifiedName, TableState] = field(default_factory=dict)
    flows: Mapping[QualifiedName, FlowState] = field(default_factory=dict)
    left: Mapping[QualifiedName, str | None] = field(default_factory=dict)
    wanted_definitions: Mapping[QualifiedName, str] = field(default_factory=dict)
    computable_from: Mapping[QualifiedName, str | None] = field(default_factory=dict)

    def table(self, name: QualifiedName) -> TableState:
        """The state of a dataset's table."""
        return self.tables.get(name, TableState())

    def flow(self, name: QualifiedName) -> FlowState:
        """The state of a flow's checkpoint."""
        return self.flows.get(name, FlowState())
