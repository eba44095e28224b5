"""The stored state of a rewind: what it changes, written before anything changes, and deleted when all is changed."""

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
        dataset: the dataset that it belongs to.
        path: its folder.
        table_id: Delta's id of it, as the offsets of its readers have it.
        before: its newest version before the rewind.
        version: the version whose rows it gets; None for no rows: it was created later.
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
        origin: the generation that was current at the time; None: there was none.
        batch: the last batch of that generation that is in the table then; None: the flow starts anew.
        until_ms: the moment that its table goes back to, in epoch milliseconds.
        undone: other generations with batches that leave the table, each with the first of them.
        start: the position its sources started at, as a manifest stores it.
        completed: whether it is a once flow that had written all its data then, so that it does not run again.
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
    """One thing that a rewind needs and that is gone.

    Args:
        dataset: the dataset that can't go back.
        problem: what is gone, as a clause.
    """

    dataset: QualifiedName
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRewind:
    """A rewind that is decided.

    Args:
        rewind_id: unique; each restored table has it in the metadata of its commit.
        to: the time or the update that the user asked for, as it was written.
        begun_at: ISO 8601 in UTC.
        user: who asked for it; None if the system has no name.
        why: in the user's words; may be empty.
        tables: the tables, the auxiliary table of a target before the target.
        flows: the flows.
        replays: the replays of quarantined rows whose rows leave their tables.
        refreshed: tables that do not go back, because what they need is gone: they are fully refreshed.
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
    """Reads, writes and deletes the state of the rewind that is in progress; there is at most one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self) -> StoredRewind | None:
        """Return the rewind in progress; None if there is none.

        Raises:
            OperationError: STORED_FILE_DAMAGED.
        """
        return _FORMAT.read(self._storage, self._path, partial(_rewind, self._storage))

    def write(self, rewind: StoredRewind) -> None:
        """Write the state of a rewind that begins."""
        content = {**asdict(rewind), "storage": self._storage.root}
        self._storage.write_text(self._path, _FORMAT.text(content, indent=1) + "\n")

    def delete(self) -> None:
        """Delete the state: nothing is left to do."""
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
                # A storage that was moved has to finish its rewind, also of tables outside of it.
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
