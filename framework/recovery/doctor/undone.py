"""Batches that a RESTORE by hand has taken out of a table, while the checkpoint of their flow goes on after them.

The flow runs, and nothing fails: only the log of the table has the batches, and the restore that undid them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from framework.foundation.storage_port import Storage
from framework.recovery.doctor.case import Case
from framework.recovery.rewind.positions import Positions
from framework.sources.delta.history import CommitHistory, Restore

_MOST_COMMITS = 1_000
"""The most commits that are read of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneBatches:
    """Batches of a flow's current checkpoint whose rows the table does not have any more.

    Args:
        restore: the version of the restore that undid the last ones.
        restored: the version that it took the table back to.
        time_ms: the time of that version, in epoch milliseconds.
        batches: their numbers, ascending.
    """

    restore: int
    restored: int
    time_ms: int
    batches: tuple[int, ...]


def undone_batches(case: Case) -> UndoneBatches | None:
    """Return the batches of a flow that restores by others undid; None if there are none, or if that is unknown."""
    if case.current is None or not case.has_checkpoint or not case.dataset.is_table:
        return None
    storage, path = case.states.storage, case.states.store.path(case.dataset.spec)
    positions = Positions(pipeline=case.graph.pipeline, storage=storage)
    application = positions.application(case.flow, case.dataset, case.current)
    return _Restores.of(storage, path).undone(application)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Restores:
    """The restores of a table.

    Args:
        storage: has the log.
        log: the folder of the log.
        history: its commits.
        versions: those that may be restores, newest first: Delta writes no checksum file for a RESTORE.
    """

    storage: Storage
    log: str
    history: CommitHistory
    versions: tuple[int, ...]

    @classmethod
    def of(cls, storage: Storage, path: str) -> Self:
        """List the log of a table."""
        log, history = f"{path}/_delta_log", CommitHistory(storage, path)
        names = set(storage.list_names(log))
        found = [version for version in reversed(history.versions) if f"{version:020d}.crc" not in names]
        return cls(storage=storage, log=log, history=history, versions=tuple(found[:_MOST_COMMITS]))

    def undone(self, application: str) -> UndoneBatches | None:
        """Return the batches of an application that the present version of the table does not have."""
        batches: list[int] = []
        last: tuple[int, int] | None = None
        for restore, restored in self._lineage():
            if "rewind" in self.history.commit(restore).mark:
                continue  # each flow has a new checkpoint since
            skipped = [version for version in self.history.versions if restored < version < restore]
            commits = [self.history.commit(version) for version in skipped[-_MOST_COMMITS:]]
            taken = [each.batches[application] for each in commits if each.changes_data and application in each.batches]
            last = (restore, restored) if taken and last is None else last
            batches += taken
        if last is None:
            return None
        return UndoneBatches(
            restore=last[0], restored=last[1], time_ms=self.history.time_ms(last[1]), batches=tuple(sorted(batches))
        )

    def _lineage(self) -> Iterator[tuple[int, int]]:
        """Yield the restores that the present version results from, newest first, each with its earlier version."""
        before = self.history.versions[-1] + 1 if self.history.versions else 0
        for version in self.versions:
            restore = self.history.commit(version).restore if version < before else None
            if restore is None:
                continue
            restored = self._version(version, restore)
            if restored is None or restored not in self.history.versions:
                return  # what came before is unknown
            yield version, restored
            before = restored + 1

    def _version(self, version: int, restore: Restore) -> int | None:
        """Return the version that a restore went back to; by a time, the last one with the same number and size."""
        if restore.version is not None or restore.files is None:
            return restore.version
        earlier = [each for each in self.history.versions if each < version][-_MOST_COMMITS:]
        return next((each for each in reversed(earlier) if self._files(each) == restore.files), None)

    def _files(self, version: int) -> tuple[int, int] | None:
        """Return the number and the size of the files of a version; None if they are unknown."""
        try:
            checksum = json.loads(self.storage.read_text(f"{self.log}/{version:020d}.crc") or "{}")
            return int(checksum["numFiles"]), int(checksum["tableSizeBytes"])
        except (ValueError, KeyError, TypeError):
            return None
