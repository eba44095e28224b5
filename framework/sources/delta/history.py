"""The commits that a Delta table's log still has: their times and their batches, read without Spark.

The time of a commit is Delta's, as in `DESCRIBE HISTORY` and `TIMESTAMP AS OF`: the in-commit timestamp if the table
records it, else the modification time of the commit file, adjusted to be ascending.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.checkpoints.generations import MayHave, may_have_any
from framework.foundation.files.storage_port import Storage, lines_of

_COMMIT = re.compile(r"(\d{20})\.json")
_SKEW_MS = 1_000  # between the clocks of two writers
_FILES = ('{"add"', '{"remove"', '{"cdc"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The target of a RESTORE.

    Args:
        version: the version; None if a time was given.
        files: the number of files of the table after the RESTORE, and their size in bytes; None if not recorded.
    """

    version: int | None
    files: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit.

    Args:
        version: its version.
        recorded_ms: its in-commit timestamp; None if the table records none.
        begun_ms: when its writer began it, by the writer's clock; None if the commit does not have it.
        batches: the last batch of each application, from the commit's `txn` actions.
        mark: Sluice's part of its user metadata.
        changes_data: whether it adds or removes rows; compaction does not.
        removes_data: whether it removes rows.
        restore: the target of a RESTORE; None for any other commit.
    """

    version: int
    recorded_ms: int | None = None
    begun_ms: int | None = None
    batches: Mapping[str, int] = field(default_factory=dict)
    mark: Mapping[str, Any] = field(default_factory=dict)
    changes_data: bool = False
    removes_data: bool = False
    restore: Restore | None = None

    @property
    def batch(self) -> tuple[str, int] | None:
        """Return application and number of the batch that wrote a commit of an auxiliary table."""
        marked = self.mark.get("batch")
        if isinstance(marked, list) and len(marked) == 2:
            return str(marked[0]), int(marked[1])
        return next(iter(self.batches.items()), None)


class CommitHistory:
    """The commits of one table, each read on first use.

    Args:
        storage: reads the log.
        path: the table's folder.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._folder = f"{path}/_delta_log"
        found = {
            int(match[1]): round(file.modified_at * 1000)
            for file in storage.list_files(self._folder)
            if (match := _COMMIT.fullmatch(file.name))
        }
        self._written = found
        self._times = _ascending(found)
        self._commits: dict[int, Commit] = {}
        self.versions = sorted(found)
        """The versions whose commits exist, ascending."""

    def time_ms(self, version: int) -> int:
        """Return the time of a commit in epoch milliseconds."""
        recorded = self.commit(version).recorded_ms
        return self._times[version] if recorded is None else recorded

    def begun_ms(self, version: int) -> int:
        """Return the start of a commit by its writer's clock; the time of the commit if unknown."""
        begun = self.commit(version).begun_ms
        return self.time_ms(version) if begun is None else begun

    def version_at(self, time_ms: int) -> int | None:
        """Return the newest version committed at or before a time; None if the log has none."""
        place = bisect_right(self.versions, time_ms, key=self.time_ms)
        return self.versions[place - 1] if place else None

    def set_back(self, first_ms: int, last_ms: int) -> tuple[int, int] | None:
        """Detect a clock that was set back at a time, or between two times; return its readings before and after.

        Delta adjusts the times of commits to be ascending, so they don't show which commits happened before such a
        time.

        Args:
            first_ms: the first time, in epoch milliseconds.
            last_ms: the last time.
        """
        latest = None
        for version in self.versions:
            written = self._written[version]
            if latest is not None and written < latest - _SKEW_MS and written <= last_ms and first_ms <= latest:
                return written, latest
            latest = written if latest is None else max(latest, written)
        return None

    def misdated(self, time_ms: int) -> Commit | None:
        """Return a data commit that is before a time by its writer's clock, and after it by its file's time.

        This is the case for all commits of a table that was copied without preserving file times.
        """
        later = (self.commit(version) for version in self.versions if self.time_ms(version) > time_ms)
        first = next((each for each in later if each.changes_data), None)
        is_misdated = first is not None and first.begun_ms is not None and first.begun_ms <= time_ms
        return first if is_misdated else None

    def commit(self, version: int) -> Commit:
        """Return a commit that the log has."""
        if version not in self._commits:
            text = self._storage.read_text(f"{self._folder}/{version:020d}.json") or ""
            self._commits[version] = _parse(version, text)
        return self._commits[version]

    def last_taken(self, applications: Collection[str], version: int) -> tuple[int, str, int] | None:
        """Return the last batch of some applications that is contained in a version.

        Args:
            applications: the applications.
            version: the version.

        Returns:
            The version of the batch's commit, its application and its number; None if no commit up to `version` has
            one.
        """
        for number in reversed(self.versions):
            if number <= version:
                taken = [(app, batch) for app, batch in self.commit(number).batches.items() if app in applications]
                if taken:
                    return number, *taken[0]
        return None

    def may_have(self, application: str, after: int) -> bool:
        """Return whether the table may contain a batch of an application with a number above `after`.

        Old commits are removed from the log, and their batches with them. So the result is also true if the log has no
        batch of the application but no longer has version 0.
        """
        taken = self.last_taken([application], self.versions[-1]) if self.versions else None
        return taken[2] > after if taken is not None else self.versions[:1] != [0]

    def changes_between(self, after: int, last: int) -> bool:
        """Return whether a commit after version `after`, up to `last`, changes rows or was deleted."""
        present = {version for version in self.versions if after < version <= last}
        return len(present) < last - after or any(self.commit(version).changes_data for version in present)


def batches_in(storage: Storage, path: str | None) -> MayHave:
    """Return a function that returns whether a target may have a batch; it reads the table's log when called.

    Args:
        storage: reads the log.
        path: the folder of the table; None for a sink, which may have any batch.
    """
    if path is None:
        return may_have_any
    return lambda query, after: CommitHistory(storage, path).may_have(query, after)


def _ascending(times: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    before = None
    for version in sorted(times):
        before = times[version] if before is None else max(times[version], before + 1)
        found[version] = before
    return found


def _parse(version: int, text: str) -> Commit:
    """Parse a commit; of its file actions, which may be very many, only whether they change rows."""
    lines = lines_of(text)
    changing = [line for line in lines if line.startswith(_FILES) and '"dataChange":true' in line]
    actions = [json.loads(line) for line in lines if line and not line.startswith(_FILES)]
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    taken = [action["txn"] for action in actions if "txn" in action]
    return Commit(
        version=version,
        recorded_ms=info.get("inCommitTimestamp"),
        begun_ms=info.get("timestamp"),
        batches={each["appId"]: int(each["version"]) for each in taken},
        mark=_mark(info.get("userMetadata")),
        changes_data=bool(changing),
        removes_data=any(line.startswith('{"remove"') for line in changing),
        restore=_restore(info) if info.get("operation") == "RESTORE" else None,
    )


def _restore(info: Mapping[str, Any]) -> Restore:
    version = (info.get("operationParameters") or {}).get("version")
    metrics = info.get("operationMetrics") or {}
    number, size = metrics.get("numOfFilesAfterRestore"), metrics.get("tableSizeAfterRestore")
    files = None if number is None or size is None else (int(number), int(size))
    return Restore(version=None if version is None else int(version), files=files)


def _mark(text: object) -> Mapping[str, Any]:
    """Return Sluice's user metadata; {} for the metadata of other writers."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    mark = found.get("sluice") if isinstance(found, dict) else None
    return mark if isinstance(mark, dict) else {}
