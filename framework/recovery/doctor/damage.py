"""Damage of a checkpoint: files that Spark needs and that are missing or cut off; read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from framework.checkpoints.offsets import CheckpointProgress, is_json, offset_of_line, read_offsets, read_progress
from framework.foundation.storage_port import Storage, lines_of

FILE_DAMAGED = "CHECKPOINT_FILE_DAMAGED"
"""Spark has no condition for a log file that is cut off."""

_NO_METADATA = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
_NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_LEAST_LINES = {"offsets": 3, "commits": 1}  # Spark takes a commit without its metadata
_VERSIONS = ("v1", "v2", "v3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One damaged or missing file.

    Args:
        condition: the condition with which Spark fails, or ours if Spark has none.
        path: the file or folder.
        problem: what is wrong with it, as a sentence.
    """

    condition: str
    path: str
    problem: str


def inspect_checkpoint(storage: Storage, checkpoint: str) -> tuple[Damage, ...]:
    """Return what is damaged in a checkpoint; () if it is sound, or if no batch was planned yet."""
    progress = read_progress(storage, checkpoint)
    if progress.last_offset_batch is None and progress.last_commit_batch is None:
        return ()
    return (
        *_metadata(storage, checkpoint, progress),
        *_logs(storage, checkpoint, progress),
        *_state(storage, checkpoint),
    )


def sound_progress(storage: Storage, checkpoint: str) -> CheckpointProgress | None:
    """Return the progress up to the last batch that is committed and whose offsets can be read.

    The folder of commits names the committed batches, also where a file in it is cut off: Spark writes it after
    the batch. None if there is no such batch.
    """
    for name in sorted(
        (int(name) for name in storage.list_names(f"{checkpoint}/commits") if name.isdecimal()), reverse=True
    ):
        if _log_problem(storage, checkpoint, "offsets", name) is None:
            sources = read_offsets(storage, checkpoint, name)
            if sources:
                return CheckpointProgress(
                    query_id=read_progress(storage, checkpoint).query_id,
                    last_offset_batch=name,
                    last_commit_batch=name,
                    sources=sources,
                )
    return None


def _metadata(storage: Storage, checkpoint: str, progress: CheckpointProgress) -> Iterator[Damage]:
    if progress.query_id is None:
        path = f"{checkpoint}/metadata"
        problem = "it is missing" if storage.read_text(path) is None else "it is not valid JSON"
        yield Damage(condition=_NO_METADATA, path=path, problem=f"The identity of the stream can't be read: {problem}.")


def _logs(storage: Storage, checkpoint: str, progress: CheckpointProgress) -> Iterator[Damage]:
    """Yield the damage of the newest file in each log, and of the offsets that belong to the last commit."""
    committed, planned = progress.last_commit_batch, progress.last_offset_batch
    wanted = [("commits", committed), ("offsets", planned)]
    if committed != planned:
        wanted.append(("offsets", committed))
    for log, batch in wanted:
        problem = None if batch is None else _log_problem(storage, checkpoint, log, batch)
        if problem is not None:
            yield Damage(condition=FILE_DAMAGED, path=f"{checkpoint}/{log}/{batch}", problem=problem)


def _log_problem(storage: Storage, checkpoint: str, log: str, batch: int) -> str | None:
    text = storage.read_text(f"{checkpoint}/{log}/{batch}")
    if text is None:
        return f"Batch {batch} is committed, but its file is missing."
    lines = lines_of(text)
    if len(lines) < _LEAST_LINES[log]:
        return f"The file of batch {batch} has {len(lines)} lines instead of {_LEAST_LINES[log]} or more."
    if lines[0] not in _VERSIONS:
        return f"The file of batch {batch} begins with {lines[0]!r} instead of a version."
    if log == "offsets":
        lines[2:] = [offset_of_line(lines[0], line) for line in lines[2:]]
    broken = [number for number, line in enumerate(lines[1:], 2) if line not in ("", "-") and not is_json(line)]
    return f"Line {broken[0]} of the file of batch {batch} is not valid JSON." if broken else None


def _state(storage: Storage, checkpoint: str) -> Iterator[Damage]:
    """Yield operators without their metadata, and partitions of the state that are missing."""
    for operator in sorted(name for name in storage.list_names(f"{checkpoint}/state") if name.isdecimal()):
        folder = f"{checkpoint}/state/{operator}"
        partitions = _partitions(storage, folder)
        if partitions is None:
            path = f"{folder}/_metadata/metadata"
            yield Damage(condition=_NO_STATE, path=path, problem=f"The metadata of operator {operator} can't be read.")
            continue
        names = set(storage.list_names(folder))
        missing = [number for number in range(partitions) if str(number) not in names]
        if missing:
            problem = f"{len(missing)} of {partitions} partitions of the state of operator {operator} are missing."
            yield Damage(condition=_NO_STATE, path=f"{folder}/{missing[0]}", problem=problem)


def _partitions(storage: Storage, folder: str) -> int | None:
    """Return the number of partitions of an operator's state; None if its metadata can't be read."""
    text = storage.read_text(f"{folder}/_metadata/metadata")
    try:
        stores = json.loads((text or "").splitlines()[1])["stateStoreInfo"]
        return max(int(store["numPartitions"]) for store in stores)
    except (ValueError, KeyError, TypeError, IndexError):
        return None
