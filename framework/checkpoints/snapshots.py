"""The snapshots that a flow has claimed and applied: one small file per generation of its checkpoint.

A version is claimed before the snapshot's rows are written, and marked as applied afterwards. So after a crash in
between, every version that may be in the target is known, and its transaction number is not assigned to another
version.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat

_FORMAT = StoredFormat(1)
_FILE = "snapshots.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """One snapshot that a flow has claimed or applied.

    Args:
        ordinal: its transaction number, from 1.
        version: its version as text.
        source: identifies the state of its source; None if unknown.
    """

    ordinal: int
    version: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """The last applied and the last claimed snapshot; None before the first."""

    applied: SnapshotMark | None = None
    claimed: SnapshotMark | None = None

    def next_ordinal(self, version: str) -> int:
        """Return the transaction number for a snapshot: the number of its open claim, or else a new one."""
        if self.claimed is None:
            return 1
        begun = self.claimed != self.applied and self.claimed.version == version
        return self.claimed.ordinal if begun else self.claimed.ordinal + 1


class SnapshotStore:
    """Reads and writes the file of one generation; each change replaces it atomically."""

    def __init__(self, storage: Storage, checkpoint: str) -> None:
        self._storage = storage
        self._path = f"{checkpoint}/{_FILE}"

    def read(self) -> SnapshotProgress:
        """Return the last applied and claimed snapshots."""
        return _FORMAT.read(self._storage, self._path, _progress) or SnapshotProgress()

    def claim(self, mark: SnapshotMark) -> None:
        """Record that a snapshot is about to be applied. Idempotent."""
        self._write(SnapshotProgress(applied=self.read().applied, claimed=mark))

    def apply(self, mark: SnapshotMark) -> None:
        """Record that a claimed snapshot is in the target. Idempotent."""
        self._write(SnapshotProgress(applied=mark, claimed=mark))

    def _write(self, progress: SnapshotProgress) -> None:
        self._storage.write_text(self._path, _FORMAT.text(asdict(progress)))


def _progress(found: dict[str, Any]) -> SnapshotProgress:
    return SnapshotProgress(**{name: SnapshotMark(**mark) for name, mark in found.items() if mark is not None})
