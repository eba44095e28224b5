"""Detection of unreadable or unwritable stored state, so that each dataset fails alone before anything is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from framework.checkpoints.generations import GenerationStore, dataset_folder, flow_folder
from framework.declare.specs import DatasetKind
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import Storage, is_local
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import plain_path
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.plan.state import StateFault
from framework.record.log import EVENTS_FOLDER
from framework.run.tables.table_store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritable:
    """The reason why this process can't write a path, as a clause, and whether its whole file system is read-only."""

    problem: str
    is_mounted_so: bool = False


_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnreadState:
    """The datasets whose tables or checkpoints can't be read, and the datasets that depend on them.

    Args:
        graph: the pipeline's graph.
        faults: the datasets with a fault of their own.
        waits: the datasets whose state can't be read because they read one of the faulty ones.
    """

    graph: DataflowGraph
    faults: dict[QualifiedName, StateFault] = field(default_factory=dict)
    waits: dict[QualifiedName, tuple[QualifiedName, ...]] = field(default_factory=dict)

    def read(self, name: QualifiedName, work: Callable[[], _Value]) -> _Value | None:
        """Return a part of a dataset's state; None if this part, or an earlier one, can't be read."""
        if name in self.faults or name in self.waits:
            return None
        try:
            return work()
        except OperationError as error:
            behind = tuple(each for each in self.graph.inputs(name) if each in self.faults)
            if behind:  # its error would only be a consequence
                self.waits[name] = behind
            else:
                self.faults[name] = StateFault.of(error)
            return None


def storage_fault(storage: Storage) -> StateFault | None:
    """Return why this process can't write to a storage; None if it can, or if the storage is not local."""
    if not is_local(storage.root):
        return None
    # Each update writes to all these folders.
    for path in (storage.root, *(storage.path(each) for each in (EVENTS_FOLDER, "records", "checkpoints"))):
        found = why_not_writable(plain_path(path))
        if found is not None and found.is_mounted_so:
            return StateFault.of(OperationError("FILE_SYSTEM_READ_ONLY", place=path, problem=found.problem))
        if found is not None:
            return StateFault.of(OperationError("STORAGE_NOT_WRITABLE", path=path, problem=found.problem))
    return None


def unwritable_datasets(
    graph: DataflowGraph, store: TableStore, besides: Container[QualifiedName]
) -> dict[QualifiedName, StateFault]:
    """Return the datasets that have a local folder that this process can't write to.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        besides: the datasets to skip, which can't even be read.
    """
    found = {}
    for dataset in graph.datasets:
        if dataset.kind is DatasetKind.TEMPORARY_VIEW or dataset.name in besides:
            continue
        folders = (*_table_folders(store, dataset), *_checkpoint_folders(graph, store.storage, dataset))
        for path in (plain_path(folder) for folder in folders if is_local(folder)):
            why = why_not_writable(path)
            if why is not None:
                error = OperationError("DATASET_NOT_WRITABLE", dataset=dataset.name, path=path, problem=why.problem)
                found[dataset.name] = StateFault.of(error)
                break
    return found


def _table_folders(store: TableStore, dataset: GraphDataset) -> Iterator[str]:
    """Yield the folders in which a commit to a dataset's tables writes files."""
    if not dataset.is_table:
        return
    auxiliary = () if dataset.cdc is None else (store.layout.auxiliary(dataset.name),)
    for folder in (store.path(dataset.spec), *auxiliary):
        yield from (folder, f"{folder}/_delta_log")


def _checkpoint_folders(graph: DataflowGraph, storage: Storage, dataset: GraphDataset) -> Iterator[str]:
    """Yield the folders in which a batch of a dataset's flows writes files."""
    if dataset.kind is DatasetKind.MATERIALIZED_VIEW:
        return
    generations = GenerationStore(storage)
    yield dataset_folder(storage, dataset.name)
    for flow in graph.flows_into(dataset.name):
        yield flow_folder(storage, dataset.name, flow.spec.name)
        current = generations.current(dataset.name, flow.spec.name)
        if current is not None:
            checkpoint = generations.path(dataset.name, flow.spec.name, current.number)
            yield from (checkpoint, f"{checkpoint}/offsets", f"{checkpoint}/commits")


def why_not_writable(path: str) -> Unwritable | None:
    """Return why this process can't write a file or folder; None if it can.

    If it does not exist, the nearest existing parent folder counts, in which it would be created.

    Args:
        path: an absolute path of this machine's file system.
    """
    place = Path(path)
    try:
        status = _status(place)
        while status is None:
            place = place.parent
            status = _status(place)
    except OSError as error:
        return Unwritable(problem=f"{place} can't be opened ({error.strerror})")
    wanted = os.W_OK | (os.X_OK if stat.S_ISDIR(status.st_mode) else 0)
    if os.access(place, wanted, effective_ids=os.access in os.supports_effective_ids):
        return None
    where = "it" if place == Path(path) else str(place)
    if os.name == "posix" and os.statvfs(place).f_flag & os.ST_RDONLY:
        return Unwritable(problem=f"{where} is on a file system that is mounted read-only", is_mounted_so=True)
    owner, rights = _user(status.st_uid), stat.filemode(status.st_mode)
    return Unwritable(problem=f"{where} belongs to {owner} with the rights {rights}, and this process runs as {_me()}")


def _status(place: Path) -> os.stat_result | None:
    """Return the status of a file or folder; None if it does not exist."""
    try:
        return place.stat()
    except FileNotFoundError:
        return None


def _me() -> str:
    return _user(os.geteuid()) if os.name == "posix" else "another user"


def _user(number: int) -> str:
    """Return the name of a user of this machine, or the number if there is no name, as in a container."""
    with suppress(ImportError, KeyError):
        import pwd

        return pwd.getpwuid(number).pw_name
    return f"user {number}"
