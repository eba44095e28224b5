"""Detects commits of a flow that a manual RESTORE removed from its table, while the checkpoint continues after them.

These are batches, the full refresh that published the flow's rows, and replays of quarantined rows. The flow runs
without an error: only the log of the table has the undone commits, and the RESTORE.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from framework.checkpoints.manifest import Generation
from framework.checkpoints.rebuilds import Rebuild
from framework.declare.specs import DatasetKind
from framework.foundation.clock import milliseconds
from framework.foundation.files.storage_port import Storage
from framework.recovery.doctor.broken_flow import BrokenFlow, UndoneCommits
from framework.recovery.rewind.positions import Positions
from framework.sources.delta.history import Commit, CommitHistory, Restore

_REPLAY = re.compile(r"sluice:.*:replay:[^:]+")
_MOST_COMMITS = 1_000
"""The largest number of commits to read from a log."""


def undone_commits(case: BrokenFlow) -> UndoneCommits | None:
    """Return the commits of a flow that restores by others undid; None if there are none, or if that is unknown."""
    is_once = case.flow.spec.once and case.dataset.kind is DatasetKind.STREAMING_TABLE
    if case.current is None or not (case.has_checkpoint or is_once) or not case.dataset.is_table:
        return None
    storage, path = case.states.storage, case.states.store.path(case.dataset.spec)
    positions = Positions(pipeline=case.graph.pipeline, storage=storage)
    wanted = _Wanted(
        batches=positions.application(case.flow, case.dataset, case.current),
        refresh=Rebuild.application(case.graph.pipeline, case.dataset.name),
        generation=case.current,
        begun_ms=case.begun_ms,
    )
    return _Restores.of(storage, path).undone(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The transactions of a flow to search for.

    Args:
        batches: the application id of its batches.
        refresh: the application id of its table's full refreshes; an identifier may follow it.
        generation: the generation that its next run continues.
        begun_ms: when the generations of all flows into the table began, in epoch milliseconds.
    """

    batches: str
    refresh: str
    generation: Generation
    begun_ms: tuple[int, ...]

    def has_published(self, commit: Commit) -> bool:
        """Whether a commit is the full refresh that created the generation."""
        numbers = (
            number
            for name, number in commit.batches.items()
            if name == self.refresh or name.startswith(f"{self.refresh}:")
        )
        return any(Rebuild(number=number).generation_mark == self.generation.fingerprint for number in numbers)

    def is_before(self, time_ms: int) -> bool:
        """Whether the generation was current at a time: a later generation accepts what was undone before it began."""
        since = self.generation.current_since
        return since is None or milliseconds(since) <= time_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Restores:
    """The RESTORE commits of a table.

    Args:
        storage: the storage with the log.
        log: the folder of the log.
        history: its commits.
        versions: candidates for a RESTORE, newest first: Delta writes no checksum file for a RESTORE.
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

    def undone(self, wanted: _Wanted) -> UndoneCommits | None:
        """Return the commits of a flow that the current version of the table no longer contains."""
        batches: list[int] = []
        replays, is_refreshed = 0, False
        last: tuple[int, int] | None = None
        for restore, restored in self._lineage():
            if "rewind" in self.history.commit(restore).mark:
                continue  # since then, each flow has a new checkpoint
            skipped = [version for version in self.history.versions if restored < version < restore]
            commits = [self.history.commit(version) for version in skipped[-_MOST_COMMITS:]]
            taken = [
                each.batches[wanted.batches] for each in commits if each.changes_data and wanted.batches in each.batches
            ]
            replayed = sum(_REPLAY.fullmatch(name) is not None for each in commits for name in each.batches)
            replayed = replayed if wanted.is_before(self.history.time_ms(restore)) else 0
            published = any(wanted.has_published(each) for each in commits)
            last = (restore, restored) if (taken or replayed or published) and last is None else last
            batches, replays, is_refreshed = batches + taken, replays + replayed, is_refreshed or published
        if last is None:
            return None
        return UndoneCommits(
            restore=last[0],
            restored=last[1],
            time_ms=self._end_ms(last[1], wanted),
            batches=tuple(sorted(batches)),
            is_refreshed=is_refreshed,
            replays=replays,
        )

    def _end_ms(self, version: int, wanted: _Wanted) -> int:
        """Return the last time at which a version was the newest one and no flow had a new generation.

        Its commit time would be too early: streams had not read the version then, so a rewind would go back further.
        """
        history, committed = self.history, self.history.time_ms(version)
        following = history.versions[history.versions.index(version) + 1]  # at the latest, the RESTORE itself
        # A rewind needs a time that is also before the next commit by its writer's clock.
        next_ms = min(history.time_ms(following), history.begun_ms(following))
        first_ms = min([next_ms, *(each for each in wanted.begun_ms if each > committed)])
        return max(committed, first_ms - 1)

    def _lineage(self) -> Iterator[tuple[int, int]]:
        """Yield the restores that the current version results from, newest first, each with its restored version."""
        before = self.history.versions[-1] + 1 if self.history.versions else 0
        for version in self.versions:
            restore = self.history.commit(version).restore if version < before else None
            if restore is None:
                continue
            restored = self._version(version, restore)
            if restored is None or restored not in self.history.versions:
                return  # earlier versions are unknown
            yield version, restored
            before = restored + 1

    def _version(self, version: int, restore: Restore) -> int | None:
        """Return the version that a RESTORE restored; if by time, the last one with the same file count and size."""
        if restore.version is not None or restore.files is None:
            return restore.version
        earlier = [each for each in self.history.versions if each < version][-_MOST_COMMITS:]
        return next((each for each in reversed(earlier) if self._files(each) == restore.files), None)

    def _files(self, version: int) -> tuple[int, int] | None:
        """Return the number and the total size of the files of a version; None if unknown."""
        try:
            checksum = json.loads(self.storage.read_text(f"{self.log}/{version:020d}.crc") or "{}")
            return int(checksum["numFiles"]), int(checksum["tableSizeBytes"])
        except (ValueError, KeyError, TypeError):
            return None
