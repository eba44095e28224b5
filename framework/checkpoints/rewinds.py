"""The stored state of a rewind: written before anything changes, and deleted after all changes are made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage, present_path
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundTable:
    """A Delta table that is restored to an earlier version.

    Args:
        dataset: the dataset that owns the table.
        path: its folder.
        table_id: Delta's id of the table, as in the offsets of its readers.
        before: its newest version before the rewind.
        version: the version to restore; None to leave no rows, because the table was created later.
        auxiliary: whether it is the auxiliary table of the dataset.
    """

    dataset: QualifiedName
    path: str
    table_id: str | None
    before: int
    version: int | None
    auxiliary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundFlow:
    """A flow that gets a new generation of its checkpoint.

    Args:
        dataset: its target.
        flow: its full name.
        before: the generation that was current before.
        generation: the number of the new generation.
        origin: the generation that was current at the time of the rewind's target; None if there was none.
        batch: the last batch of `origin` that was in the table at that time; None if the flow starts from scratch.
        until_ms: the time that its table goes back to, in epoch milliseconds.
        undone: other generations with batches that leave the table, each with its first such batch.
        start: the position its sources started at, as a manifest stores it.
        completed: whether it is a once flow that had written all its data at that time, so that it does not run again.
    """

    dataset: QualifiedName
    flow: QualifiedName
    before: int
    generation: int
    origin: int | None
    batch: int | None
    until_ms: int | None = None
    undone: tuple[tuple[int, int], ...] = ()
    start: str | None = None
    completed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindRefusal:
    """A reason why a rewind is impossible: something that it needs no longer exists.

    Args:
        dataset: the dataset that can't go back.
        problem: what is missing, as a clause.
    """

    dataset: QualifiedName
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRewind:
    """A rewind that is decided, with all its changes.

    Args:
        rewind_id: unique; the commit that restores a table has it in its metadata.
        to: the time or update that the user asked for, as the user wrote it.
        begun_at: ISO 8601 in UTC.
        user: who asked for it; None if the system has no user name.
        why: in the user's words; may be empty.
        tables: the tables to restore; an auxiliary table comes before its target.
        flows: the flows that get a new generation.
        replays: the replays of quarantined rows that leave their tables.
        refreshed: tables that are fully refreshed instead of restored, because what a restore needs no longer exists.
    """

    rewind_id: str
    to: str
    begun_at: str
    user: str | None
    why: str
    tables: tuple[RewoundTable, ...]
    flows: tuple[RewoundFlow, ...]
    replays: tuple[str, ...] = ()
    refreshed: tuple[QualifiedName, ...] = ()


class RewindStore:
    """Reads, writes and deletes the state of the rewind in progress; there is at most one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self) -> StoredRewind | None:
        """Return the rewind in progress; None if there is none.

        Raises:
            OperationError: STORED_FILE_DAMAGED.
        """
        return _FORMAT.read(self._storage, self._path, partial(_rewind, self._storage))

    def write(self, rewind: StoredRewind) -> None:
        """Write the state of a rewind before it begins."""
        content = {**asdict(rewind), "storage": self._storage.root}
        self._storage.write_text(self._path, _FORMAT.text(content, indent=1) + "\n")

    def delete(self) -> None:
        """Delete the state of a rewind that has nothing left to do."""
        self._storage.delete_tree(self._path)

    def check_none(self) -> None:
        """Check that no rewind is in progress.

        Raises:
            OperationError: REWIND_UNFINISHED.
        """
        rewind = self.read()
        if rewind is not None:
            raise OperationError("REWIND_UNFINISHED", to=rewind.to, begun_at=rewind.begun_at)

    @property
    def _path(self) -> str:
        return self._storage.path("rewinds", "rewind.json")


def _rewind(storage: Storage, found: dict[str, Any]) -> StoredRewind:
    root = found.pop("storage")
    tables = (
        RewoundTable(
            **{
                **each,
                "dataset": QualifiedName(**each["dataset"]),
                # A moved storage still has to finish its rewind, including tables outside the storage.
                "path": present_path(storage, each["path"], root) or each["path"],
            }
        )
        for each in found["tables"]
    )
    flows = (
        RewoundFlow(**{**each, "dataset": QualifiedName(**each["dataset"]), "flow": QualifiedName(**each["flow"])})
        for each in found["flows"]
    )
    refreshed = tuple(QualifiedName(**each) for each in found["refreshed"])
    return StoredRewind(
        **{
            **found,
            "tables": tuple(tables),
            "flows": tuple(flows),
            "replays": tuple(found["replays"]),
            "refreshed": refreshed,
        }
    )
