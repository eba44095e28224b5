"""The tables of a rewind, and the version of AUTO CDC's auxiliary table that belongs to a version of its target.

Both tables have the same batches then. Each commit of an auxiliary table names its batch, and is made before the
commit of the target.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.graph.graph import GraphDataset
from framework.recovery.rewind.positions import TableVersion
from framework.run.tables.table_store import TableStore
from framework.sources.delta.history import Commit, CommitHistory
from framework.sources.delta.log import read_tip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTable:
    """A table that may be restored.

    Args:
        dataset: its dataset.
        path: its folder.
        table_id: Delta's id of it.
        history: its commits.
        auxiliary_path: the folder of its auxiliary table.
        auxiliary: the commits of that; None if there is none.
    """

    dataset: GraphDataset
    path: str
    table_id: str | None
    history: CommitHistory
    auxiliary_path: str
    auxiliary: CommitHistory | None

    @classmethod
    def of(cls, dataset: GraphDataset, store: TableStore) -> StoredTable | None:
        """Read the log of a dataset's table; None if there is no table."""
        path = store.path(dataset.spec)
        history = CommitHistory(store.storage, path)
        tip = read_tip(store.storage, path)
        if tip is None or not history.versions:
            return None
        other_path = str(store.auxiliary(dataset.spec).path)
        other = CommitHistory(store.storage, other_path)
        return cls(
            dataset=dataset,
            path=path,
            table_id=tip.table_id,
            history=history,
            auxiliary_path=other_path,
            auxiliary=other if other.versions else None,
        )

    @property
    def tip(self) -> int:
        """The newest version."""
        return self.history.versions[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryVersion:
    """The version of an auxiliary table that belongs to a version of its target.

    Args:
        version: the version; None if none of its rows belongs to the target then.
        is_restored: whether it has later rows.
        conflict: the target's commit of a batch whose rows follow those of a batch that the target does not have; None
            if there is none. An earlier version of the target is needed then.
    """

    version: int | None = None
    is_restored: bool = False
    conflict: int | None = None


def auxiliary_at(table: StoredTable, moment: TableVersion) -> AuxiliaryVersion:
    """Return the version of a table's auxiliary table at a version of the table."""
    history, last, first_later = table.auxiliary, None, None
    if history is None:
        return AuxiliaryVersion()
    for version in history.versions:
        commit = history.commit(version)
        if not commit.changes_data or _is_forgetting(commit):
            continue
        owner = _owner(commit, table, moment, history.time_ms(version))
        if owner is None:
            first_later = version if first_later is None else first_later
        elif first_later is not None:
            return AuxiliaryVersion(conflict=owner)
        else:
            last = version
    if last is None and not history.commit(history.versions[0]).changes_data:
        last = history.versions[0]
    return AuxiliaryVersion(version=last, is_restored=first_later is not None)


def _is_forgetting(commit: Commit) -> bool:
    """Whether a commit removes old deletes, which has no effect on the rows of the target."""
    return commit.removes_data and commit.batch is None and "rewind" not in commit.mark


def _owner(commit: Commit, table: StoredTable, moment: TableVersion, time_ms: int) -> int | None:
    """Return the target's commit that a commit of its auxiliary table belongs to; None if it is a later one."""
    history = table.history
    rewind = commit.mark.get("rewind")
    if rewind is not None:
        restored = [version for version in history.versions if history.commit(version).mark.get("rewind") == rewind]
        is_earlier = restored[0] <= moment.version if restored else time_ms <= moment.time_ms
        return moment.version if is_earlier else None
    if commit.batch is None:  # of a version of Sluice that did not name the batch
        return moment.version if time_ms <= moment.time_ms else None
    application, number = commit.batch
    taken = history.last_taken([application], moment.version)
    return taken[0] if taken is not None and taken[2] >= number else None
