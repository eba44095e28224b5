"""Reads the progress of a Structured Streaming checkpoint without Spark.

Spark writes `offsets/<batch>` before a batch and `commits/<batch>` after it. An offsets file is a
version line, a line of metadata, then one line of JSON for each source in order (`-` for none).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from framework.foundation.storage_port import Storage, lines_of

_KNOWN_VERSION = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProgress:
    """The progress of a stream.

    Args:
        query_id: the stream's id, which is in its sinks' transactions; None before the first start.
        last_offset_batch: the last planned batch; None before the first.
        last_commit_batch: the last committed batch; None before the first.
        sources: the raw end offset of each source in `last_commit_batch`, in the query's order; () if
            no batch is committed, or if the file is damaged or has an unknown version.
    """

    query_id: str | None = None
    last_offset_batch: int | None = None
    last_commit_batch: int | None = None
    sources: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether a batch is committed and no planned batch is uncommitted."""
        return self.last_commit_batch is not None and self.last_offset_batch == self.last_commit_batch


def read_progress(storage: Storage, checkpoint_path: str) -> CheckpointProgress:
    """Read the progress of a checkpoint; all None if it does not exist."""
    committed = _last_batch(storage, f"{checkpoint_path}/commits")
    return CheckpointProgress(
        query_id=_read_query_id(storage, checkpoint_path),
        last_offset_batch=_last_batch(storage, f"{checkpoint_path}/offsets"),
        last_commit_batch=committed,
        sources=()
        if committed is None
        else _parse_offsets(storage.read_text(f"{checkpoint_path}/offsets/{committed}")),
    )


def read_offsets(storage: Storage, checkpoint_path: str, batch: int) -> tuple[str, ...]:
    """Return the raw end offset of each source in a batch; () if it is not planned."""
    return _parse_offsets(storage.read_text(f"{checkpoint_path}/offsets/{batch}"))


def read_planned_at(storage: Storage, checkpoint_path: str, batch: int) -> int | None:
    """Return when a batch was planned, in epoch milliseconds, by the clock of the process; None if it is unknown."""
    lines = lines_of(storage.read_text(f"{checkpoint_path}/offsets/{batch}") or "")
    try:
        return int(json.loads(lines[1])["batchTimestampMs"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _last_batch(storage: Storage, folder: str) -> int | None:
    return max((int(name) for name in storage.list_names(folder) if name.isdecimal()), default=None)


def _read_query_id(storage: Storage, checkpoint_path: str) -> str | None:
    try:
        return str(json.loads(storage.read_text(f"{checkpoint_path}/metadata") or "")["id"])
    except (ValueError, TypeError, KeyError):
        return None


def _parse_offsets(text: str | None) -> tuple[str, ...]:
    lines = lines_of(text or "")
    if len(lines) < 3 or lines[0] != _KNOWN_VERSION:
        return ()
    sources = tuple(lines[2:])
    return sources if all(source == "-" or is_json(source) for source in sources) else ()


def is_json(text: str) -> bool:
    """Whether a line of a checkpoint's file is complete."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
