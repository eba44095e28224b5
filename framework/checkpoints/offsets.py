"""Reads a Structured Streaming checkpoint without Spark: how far its stream got.

Spark writes `offsets/<batch>` before a batch and `commits/<batch>` after it. An offsets file is a
version line, a line of metadata, then one line of JSON for each source in order (`-` for none).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from framework.foundation.storage_port import Storage

_KNOWN_VERSION = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProgress:
    """How far a stream got.

    Args:
        query_id: the stream's id, which its sinks' transactions carry; None before the first start.
        last_offset_batch: the last batch that was planned; None before the first.
        last_commit_batch: the last batch that was done; None before the first.
        sources: the raw offset of each source, in the query's order, that `last_commit_batch`
            ended at; () when none is done, or when the file is damaged or of a version not known.
    """

    query_id: str | None = None
    last_offset_batch: int | None = None
    last_commit_batch: int | None = None
    sources: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether some batch is done and no planned one is left over from a crash."""
        return self.last_commit_batch is not None and self.last_offset_batch == self.last_commit_batch


def read_progress(storage: Storage, checkpoint_path: str) -> CheckpointProgress:
    """How far the stream of a checkpoint got; all None for one that does not exist."""
    committed = _last_batch(storage, f"{checkpoint_path}/commits")
    return CheckpointProgress(
        query_id=_read_query_id(storage, checkpoint_path),
        last_offset_batch=_last_batch(storage, f"{checkpoint_path}/offsets"),
        last_commit_batch=committed,
        sources=()
        if committed is None
        else _parse_offsets(storage.read_text(f"{checkpoint_path}/offsets/{committed}")),
    )


def _last_batch(storage: Storage, folder: str) -> int | None:
    return max((int(name) for name in storage.list_names(folder) if name.isdecimal()), default=None)


def _read_query_id(storage: Storage, checkpoint_path: str) -> str | None:
    try:
        return str(json.loads(storage.read_text(f"{checkpoint_path}/metadata") or "")["id"])
    except (ValueError, TypeError, KeyError):
        return None


def _parse_offsets(text: str | None) -> tuple[str, ...]:
    lines = (text or "").splitlines()
    if len(lines) < 3 or lines[0] != _KNOWN_VERSION:
        return ()
    return tuple(lines[2:])
