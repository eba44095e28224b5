"""`cleanSource`: files are deleted or moved when their rows are committed and the retention has passed since.

The order of the durable effects: Spark commits a batch; the time at which the commit was seen is stored in the
checkpoint; after the retention, the number of files to be removed is recorded for plans; the files are removed; they
are marked as done. If a process dies in between, the next one repeats from the first missing effect; files that are
already removed are skipped.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from framework.checkpoints.generations import is_building
from framework.checkpoints.offsets import read_progress
from framework.foundation.clock import Clock
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.offsets import committed_files, log_folder
from framework.sources.cloud_files.files.removal import Remover
from framework.sources.cloud_files.settings.options import Cleaning, CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = StoredFormat(1)
_FORMAT_OF_COUNTS = StoredFormat(1)
_MOST_MARKS = 1000
_recording = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningState:
    """How far the files of one checkpoint are cleaned.

    Args:
        done: number of the last file that was processed, removed or not.
        removed: number of removed files.
        marks: pairs of the last committed file and the epoch second at which its commit was seen, in their order.
    """

    done: int = 0
    removed: int = 0
    marks: tuple[tuple[int, float], ...] = ()

    def seen(self, committed: int, now: float) -> CleaningState:
        """Add a mark; if there are too many, drop every second one: its files become due with the next mark."""
        if committed <= max(self.done, self.marks[-1][0] if self.marks else 0):
            return self
        marks = (*self.marks, (committed, now))
        return replace(self, marks=marks[1::2] if len(marks) > _MOST_MARKS else marks)

    def due(self, now: float, retention_seconds: float) -> int:
        """Return the number of the last file whose retention has passed."""
        return max((last for last, at in self.marks if at + retention_seconds <= now), default=self.done)

    def cleaned(self, last: int, removed: int) -> CleaningState:
        """Return the state after files up to `last` were processed."""
        marks = tuple(mark for mark in self.marks if mark[0] > last)
        return CleaningState(done=last, removed=self.removed + removed, marks=marks)

    def to_json(self) -> str:
        """Return the state as JSON."""
        return _FORMAT.text({"done": self.done, "removed": self.removed, "marks": self.marks})

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CleaningState:
        """Parse the output of `to_json`."""
        marks = tuple((int(last), float(at)) for last, at in value["marks"])
        return cls(done=int(value["done"]), removed=int(value["removed"]), marks=marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """Cleans the files of one source of one checkpoint.

    Args:
        spark: for file systems other than the local one; None if nothing is cleaned, only checked.
        options: `cleaning` determines whether files are deleted or moved.
        storage: keeps the checkpoint.
        checkpoint: the checkpoint of the query.
        number: of the source in the query.
        clock: for the retention.
    """

    spark: SparkSession | None
    options: CloudFilesOptions
    storage: Storage
    checkpoint: str
    number: int
    clock: Clock

    def has_work(self, committed: int) -> bool:
        """Return whether a commit is not stored yet, or files are due.

        Args:
            committed: number of the last file whose rows are committed.
        """
        if self.options.cleaning is Cleaning.OFF:
            return False
        now, state = self.clock.now().timestamp(), self._state()
        return state.seen(committed, now) != state or self._due(state, now) > state.done

    def clean(self, log: FileLog) -> None:
        """Delete or move the files that are due.

        Args:
            log: the list of the files.

        Raises:
            OperationError: CLOUD_FILES_CLEANING_FAILED; the rows of the files are committed.
        """
        if self.options.cleaning is Cleaning.OFF:
            return
        before, now = self._state(), self.clock.now().timestamp()
        state = before.seen(self._committed(), now)
        last = self._due(state, now)
        if last > state.done:
            # Files from before the first start were passed over: no table has their rows.
            first = max(state.done, log.first_unread - 1)
            count = max(last - first, 0)
            record_removed(self.storage, self.options, self._key, state.removed + count)
            remover = Remover(spark=self.spark, options=self.options)
            removed = sum(remover.remove(file) for file in log.each(first, last)) if count else 0
            failpoint("cloud_files.before_clean_mark")
            state = state.cleaned(last, removed)
            record_removed(self.storage, self.options, self._key, state.removed)
        if state != before:
            self.storage.write_text(self._path, state.to_json())

    def _committed(self) -> int:
        """Return the last file of the last committed batch, read from the checkpoint."""
        return committed_files(read_progress(self.storage, self.checkpoint).sources).get(self.number, 0)

    def _due(self, state: CleaningState, now: float) -> int:
        """Return the last removable file; none is removed during a rebuild, which may be abandoned."""
        last = state.due(now, self.options.retention_seconds)
        return state.done if last > state.done and is_building(self.storage, self.checkpoint) else last

    def _state(self) -> CleaningState:
        return _FORMAT.read(self.storage, self._path, CleaningState.from_json) or CleaningState()

    @property
    def _path(self) -> str:
        return f"{log_folder(self.checkpoint, self.number)}/cleaning"

    @property
    def _key(self) -> str:
        return f"{self.checkpoint}#{self.number}"


def forget_commits(storage: Storage, checkpoint: str, number: int, *, after: int) -> None:
    """Forget the commits of all files after `after`, from which the checkpoint continues. Idempotent.

    Args:
        storage: keeps the checkpoint.
        checkpoint: its path.
        number: of the source in the query.
        after: number of the last file that is committed.
    """
    path = f"{log_folder(checkpoint, number)}/cleaning"
    state = _FORMAT.read(storage, path, CleaningState.from_json)
    if state is not None:
        marks = tuple(mark for mark in state.marks if mark[0] <= after)
        storage.write_text(path, replace(state, done=min(state.done, after), marks=marks).to_json())


def record_removed(storage: Storage, options: CloudFilesOptions, key: str, files: int) -> None:
    """Record how many files of a path a checkpoint has removed, for plans that would read them again."""
    with _recording:
        path = _record(storage, options.path)
        found = _FORMAT_OF_COUNTS.read(storage, path, dict) or {"by": {}}
        by = {**found["by"], key: {"files": files, "to": options.move_destination}}
        storage.write_text(path, _FORMAT_OF_COUNTS.text({"path": options.path, "by": by}))


def removed_files(storage: Storage, path: str) -> str:
    """Return a clause such as `3 files of /in were deleted by cleanSource`; empty if none was removed."""
    found = _FORMAT_OF_COUNTS.read(storage, _record(storage, path), dict) or {"by": {}}
    counts: dict[str | None, int] = {}
    for each in found["by"].values():
        counts[each["to"]] = counts.get(each["to"], 0) + int(each["files"])
    return " and ".join(_clause(count, path, to) for to, count in counts.items() if count)


def _clause(count: int, path: str, destination: str | None) -> str:
    files = "1 file" if count == 1 else f"{count:,} files"
    done = "deleted" if destination is None else f"moved to {destination}"
    return f"{files} of {path} {'was' if count == 1 else 'were'} {done} by cleanSource"


def _record(storage: Storage, path: str) -> str:
    return storage.path("cleaned", hashlib.sha256(path.encode()).hexdigest()[:24])
