"""Detection of damaged checkpoints without Spark: files that Spark needs and that are missing or truncated.

Only damage that certainly makes Spark fail at the start of the stream is reported.
`tests/spark/test_damaged_checkpoints.py` damages each file of a checkpoint, and checks that Spark runs with any damage
that is not reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from framework.checkpoints.offsets import CheckpointProgress, is_json, offset_of_line, read_progress
from framework.checkpoints.truncation import has_state_of
from framework.foundation.files.storage_port import Storage, lines_of

FILE_DAMAGED = "CHECKPOINT_FILE_DAMAGED"
"""Our condition for a truncated log file; Spark has none."""

_NO_METADATA = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
_NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_NO_VERSION = "CANNOT_LOAD_STATE_STORE"
_LEAST_LINES = {"offsets": 3, "commits": 1}  # Spark accepts a commit without its metadata
_VERSIONS = ("v1", "v2", "v3")
_LISTED = "v1"  # the only version of a file list
_MERGED = ".compact"
_SCHEMA = re.compile(r"\0.v(\d)", re.DOTALL)
_STRUCT = '{"type":"struct","fields":['


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
    """Return the damage of a checkpoint; () if it is intact or if no stream has started in it."""
    progress = read_progress(storage, checkpoint)
    if progress.last_offset_batch is None and progress.last_commit_batch is None:
        if storage.read_text(f"{checkpoint}/metadata") is None:
            return ()
        return tuple(_metadata(storage, checkpoint, progress))
    return (
        *_metadata(storage, checkpoint, progress),
        *_logs(storage, checkpoint, progress),
        *_lists(storage, checkpoint, progress),
        *_state(storage, checkpoint, progress),
    )


def _metadata(storage: Storage, checkpoint: str, progress: CheckpointProgress) -> Iterator[Damage]:
    if progress.query_id is None:
        path = f"{checkpoint}/metadata"
        problem = "it is missing" if storage.read_text(path) is None else "it is not valid JSON"
        yield Damage(condition=_NO_METADATA, path=path, problem=f"The identity of the stream can't be read: {problem}.")


def _logs(storage: Storage, checkpoint: str, progress: CheckpointProgress) -> Iterator[Damage]:
    """Yield the damage of the newest commit, and of the offsets that Spark reads when a stream starts.

    Spark reads the offsets of the newest planned batch, of the batch before it, and of the newest commit.
    """
    committed, planned = progress.last_commit_batch, progress.last_offset_batch
    offsets = {planned, committed} | ({planned - 1} if planned else set())
    wanted = [("commits", committed), *(("offsets", batch) for batch in offsets)]
    for log, batch in sorted((log, batch) for log, batch in wanted if batch is not None):
        problem = _log_problem(storage, checkpoint, log, batch)
        if problem is not None:
            path = f"{checkpoint}/{log}/{batch}"
            yield Damage(condition=FILE_DAMAGED, path=path, problem=problem)


def _log_problem(storage: Storage, checkpoint: str, log: str, batch: int) -> str | None:
    text = storage.read_text(f"{checkpoint}/{log}/{batch}")
    if text is None:
        return f"{log}/{batch} is missing, and a later file of the checkpoint needs it."
    lines = lines_of(text)
    if len(lines) < _LEAST_LINES[log]:
        return f"{log}/{batch} has {len(lines)} lines instead of {_LEAST_LINES[log]} or more."
    if lines[0] not in _VERSIONS:
        return f"{log}/{batch} begins with {lines[0]!r} instead of a version that Spark reads."
    if log == "offsets":
        lines[2:] = [offset_of_line(lines[0], line) for line in lines[2:]]
    broken = [number for number, line in enumerate(lines[1:], 2) if line not in ("", "-") and not is_json(line)]
    return f"Line {broken[0]} of {log}/{batch} is not valid JSON." if broken else None


def _lists(storage: Storage, checkpoint: str, progress: CheckpointProgress) -> Iterator[Damage]:
    """Yield damaged file lists of Spark's file source, which reads the last merged list and each list after it."""
    for number, offset in enumerate(progress.sources):
        found = json.loads(offset) if offset != "-" else None
        if not isinstance(found, dict) or set(found) != {"logOffset"}:
            continue
        folder = f"{checkpoint}/sources/{number}"
        names = {name for name in storage.list_names(folder) if name.removesuffix(_MERGED).isdecimal()}
        last = max([int(found["logOffset"]), *(int(name.removesuffix(_MERGED)) for name in names)])
        merged = max((int(name.removesuffix(_MERGED)) for name in names if name.endswith(_MERGED)), default=-1)
        needed = [f"{merged}{_MERGED}"] if merged >= 0 else []
        for name in (*needed, *map(str, range(merged + 1, last + 1))):
            problem = _list_problem(storage.read_text(f"{folder}/{name}"), f"sources/{number}/{name}")
            if problem is not None:
                yield Damage(condition=FILE_DAMAGED, path=f"{folder}/{name}", problem=problem)


def _list_problem(text: str | None, name: str) -> str | None:
    if text is None:
        return f"{name}, a list of files, is missing."
    lines = lines_of(text)
    if not lines or lines[0] != _LISTED:
        return f"{name}, a list of files, does not begin with a version that Spark reads."
    broken = [number for number, line in enumerate(lines[1:], 2) if line and not is_json(line)]
    return f"Line {broken[0]} of {name}, a list of files, is not valid JSON." if broken else None


def _state(storage: Storage, checkpoint: str, progress: CheckpointProgress) -> Iterator[Damage]:
    """Yield missing partitions of the state, and partitions that lack a version.

    Operator metadata is not checked, because Spark writes it again. State files on an object store are not checked,
    because listing each partition takes long. Before the first commit no partition is needed: Spark creates the folder
    of the first partition with its schema before the tasks run, and the tasks create the others.
    """
    batch = progress.last_commit_batch
    for operator in sorted(name for name in storage.list_names(f"{checkpoint}/state") if name.isdecimal()):
        folder = f"{checkpoint}/state/{operator}"
        names = set(storage.list_names(folder))
        partitions = 0 if batch is None else _partitions(storage, folder) or 0
        missing = [number for number in range(partitions) if str(number) not in names]
        if missing:
            problem = f"{len(missing)} of {partitions} partitions of the state of operator {operator} are missing."
            yield Damage(condition=_NO_STATE, path=f"{folder}/{missing[0]}", problem=problem)
        schema = f"{folder}/0/_metadata/schema"
        if _is_schema_damaged(storage.read_text(schema), is_there=storage.exists(schema)):
            problem = f"The schema of the state of operator {operator} is empty or cut off."
            yield Damage(condition=FILE_DAMAGED, path=schema, problem=problem)
        if batch is None or not storage.can_append:
            continue
        for name in sorted(names, key=lambda each: (len(each), each)):
            if name.isdecimal() and not has_state_of(storage, f"{folder}/{name}", batch + 1):
                problem = (
                    f"Files of the state of operator {operator} after batch {batch} are missing, empty or cut off."
                )
                yield Damage(condition=_NO_VERSION, path=f"{folder}/{name}", problem=problem)
                break


def _is_schema_damaged(text: str | None, *, is_there: bool) -> bool:
    """Whether Spark can't read the file with the schemas of key and value; Spark rewrites a missing file."""
    if text is None:
        return is_there
    version = _SCHEMA.match(text)
    return version is None or (version[1] in "12" and text.count(_STRUCT) < 2)


def _partitions(storage: Storage, folder: str) -> int | None:
    """Return the number of partitions of an operator's state; None if its metadata can't be read."""
    text = storage.read_text(f"{folder}/_metadata/metadata")
    try:
        stores = json.loads((text or "").splitlines()[1])["stateStoreInfo"]
        return max(int(store["numPartitions"]) for store in stores)
    except (ValueError, KeyError, TypeError, IndexError):
        return None
