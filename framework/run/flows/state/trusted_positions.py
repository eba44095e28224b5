"""The position of a checkpoint of which files are damaged: that of the last committed batch whose end is known.

The name of a file in `commits` says that its batch was written, also where the file is cut off. Where the batch ended
is in its offsets, and in the event log, which has the end of each batch that was committed.
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
    """Return the progress of a checkpoint up to the last committed batch whose end is known; None if there is none.

    Args:
        storage: has the checkpoint and the event log.
        checkpoint: the path of the checkpoint.
        damages: its damage.
        query: the id of its stream by the manifest, where its metadata is damaged.
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
    """Return where a batch ended in each source by the event log; () if the log does not have it."""
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
