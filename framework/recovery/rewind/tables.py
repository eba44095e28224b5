"""The tables of a rewind, and for each target version the matching version of AUTO CDC's auxiliary table.

Matching versions contain the same batches. Each commit of an auxiliary table names its batch, and precedes the target's
commit of that batch.
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
        table_id: the table's Delta id.
        history: its commits.
        auxiliary_path: the folder of its auxiliary table.
        auxiliary: the commits of its auxiliary table; None if there is none.
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
    """The version of an auxiliary table that matches a version of its target.

    Args:
        version: the version; None if none of its rows belongs to the target at that version.
        is_restored: whether the auxiliary table has later rows.
        conflict: the target's commit of a batch that follows, in the auxiliary table, a batch missing in the target;
            None if there is none. The target must then be restored to an earlier version.
    """

    version: int | None = None
    is_restored: bool = False
    conflict: int | None = None


def auxiliary_at(table: StoredTable, moment: TableVersion) -> AuxiliaryVersion:
    """Return the version of the auxiliary table that matches a version of its target."""
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
    """Whether a commit removes old deletes, which does not affect the rows of the target."""
    return commit.removes_data and commit.batch is None and "rewind" not in commit.mark


def _owner(commit: Commit, table: StoredTable, moment: TableVersion, time_ms: int) -> int | None:
    """Return the target's commit that belongs to a commit of its auxiliary table; None if it is later than `moment`."""
    history = table.history
    rewind = commit.mark.get("rewind")
    if rewind is not None:
        restored = [version for version in history.versions if history.commit(version).mark.get("rewind") == rewind]
        is_earlier = restored[0] <= moment.version if restored else time_ms <= moment.time_ms
        return moment.version if is_earlier else None
    if commit.batch is None:  # written by a version of Sluice that did not name the batch
        return moment.version if time_ms <= moment.time_ms else None
    application, number = commit.batch
    taken = history.last_taken([application], moment.version)
    return taken[0] if taken is not None and taken[2] >= number else None
