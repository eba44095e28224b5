"""Which snapshots a flow has claimed and applied: one small file in each generation of its checkpoint.

A version is claimed before the snapshot's rows are written, and marked as applied after. So whatever
happens between, a version that may be in the target is known, and its transaction's number is not
given to another.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from framework.foundation.storage_port import Storage
from framework.foundation.stored_json import read_stored_json

_FILE = "snapshots.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """One snapshot of a flow.

    Args:
        ordinal: the number of its transaction, from 1.
        version: its version as text.
        source: what its source was like; None when that can't be told.
    """

    ordinal: int
    version: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """The last snapshot that was applied, and the last one that was begun; None before the first."""

    applied: SnapshotMark | None = None
    claimed: SnapshotMark | None = None

    def next_ordinal(self, version: str) -> int:
        """The number for a snapshot: its own, if it was begun and not finished, else one never given out."""
        if self.claimed is None:
            return 1
        begun = self.claimed != self.applied and self.claimed.version == version
        return self.claimed.ordinal if begun else self.claimed.ordinal + 1


class SnapshotStore:
    """Reads and writes the file of one generation, each change one atomic replacement."""

    def __init__(self, storage: Storage, checkpoint: str) -> None:
        self._storage = storage
        self._path = f"{checkpoint}/{_FILE}"

    def read(self) -> SnapshotProgress:
        """How far the flow got."""
        return read_stored_json(self._storage, self._path, _progress) or SnapshotProgress()

    def claim(self, mark: SnapshotMark) -> None:
        """Note that a snapshot is about to be applied; again is the same."""
        self._write(SnapshotProgress(applied=self.read().applied, claimed=mark))

    def apply(self, mark: SnapshotMark) -> None:
        """Note that a claimed snapshot is in the target; again is the same."""
        self._write(SnapshotProgress(applied=mark, claimed=mark))

    def _write(self, progress: SnapshotProgress) -> None:
        self._storage.write_text(self._path, json.dumps(asdict(progress)))


def _progress(found: dict[str, Any]) -> SnapshotProgress:
    return SnapshotProgress(**{name: SnapshotMark(**mark) for name, mark in found.items() if mark is not None})
