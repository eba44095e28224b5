"""The position of a damaged checkpoint: the last committed batch whose end offsets are known.

The name of a file in `commits` proves that its batch was written, even if the file is truncated. The end offsets of a
batch are in its offsets file, and in the event log for each committed batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from framework.checkpoints.damage import Damage
from framework.checkpoints.offsets import NO_OFFSET, CheckpointProgress, is_json, read_offsets, read_progress
from framework.foundation.files.storage_port import Storage
from framework.record.events import EventType
from framework.record.reader import read_events

_LAST_EVENTS = 5_000
_LOGS = ("/offsets", "/commits")


def trusted_progress(
    storage: Storage, checkpoint: str, damages: Sequence[Damage], query: str = ""
) -> CheckpointProgress | None:
    """Return a checkpoint's progress up to the last committed batch with known end offsets; None if there is none.

    Args:
        storage: the storage with the checkpoint and the event log.
        checkpoint: the path of the checkpoint.
        damages: the checkpoint's damage.
        query: the id of its stream in the manifest, in case its metadata is damaged.
    """
    progress = read_progress(storage, checkpoint)
    if not any(damage.path.rpartition("/")[0].endswith(_LOGS) for damage in damages):
        return progress if progress.sources else None
    known = progress.query_id or query
    names = [int(name) for name in storage.list_names(f"{checkpoint}/commits") if name.isdecimal()]
    for batch in sorted(names, reverse=True):
        path = f"{checkpoint}/offsets/{batch}"
        is_damaged = any(damage.path == path for damage in damages)
        sources = () if is_damaged else read_offsets(storage, checkpoint, batch)
        sources = sources or _reported(storage, known, batch)
        if sources:
            return CheckpointProgress(
                query_id=known or None, last_offset_batch=batch, last_commit_batch=batch, sources=sources
            )
    return None


def _reported(storage: Storage, query: str, batch: int) -> tuple[str, ...]:
    """Return the end offsets of a batch in the event log; () if the log does not have them."""
    events = read_events(storage, type=EventType.STREAM_PROGRESS, last=_LAST_EVENTS) if query else []
    for event in reversed(events):
        found = event.details.get(str(EventType.STREAM_PROGRESS), {}).get("progress", {})
        if (found.get("id"), found.get("batch_id")) == (query, batch):
            offsets = [_offset(source.get("end_offset")) for source in found.get("sources", ())]
            return tuple(offsets) if all(offset == NO_OFFSET or is_json(offset) for offset in offsets) else ()
    return ()


def _offset(value: object) -> str:
    if value is None or value == "null":
        return NO_OFFSET
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
