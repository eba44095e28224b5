"""Readers of the progress of a Structured Streaming checkpoint, without Spark.

Spark writes `offsets/<batch>` before a batch and `commits/<batch>` after it. An offsets file is a version line, a line
of metadata, then one line of JSON for each source (`-` for none). In version 1 the sources are in order; in version 2
(`spark.sql.streaming.offsetLog.formatVersion`) each line begins with the number of its source and a colon.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from framework.foundation.files.storage_port import Storage, lines_of

_ORDERED, _NUMBERED = "v1", "v2"
NO_OFFSET = "-"
"""The line of a source without an offset."""
_FIRST_SOURCE = 2
"""The line of the first source, after the version and the metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProgress:
    """The progress of a stream.

    Args:
        query_id: the stream's id, which its sinks store in their transactions; None before the first start.
        last_offset_batch: the last planned batch; None before the first.
        last_commit_batch: the last committed batch; None before the first.
        sources: the raw end offset of each source in `last_commit_batch`, in the query's order. Empty if no batch is
            committed, or if the file is damaged, has an unknown version, or has names for its sources.
    """

    query_id: str | None = None
    last_offset_batch: int | None = None
    last_commit_batch: int | None = None
    sources: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether a batch is committed and no planned batch is pending."""
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
    """Return the raw end offset of each source in a batch; () if the batch is not planned."""
    return _parse_offsets(storage.read_text(f"{checkpoint_path}/offsets/{batch}"))


def read_planned_at(storage: Storage, checkpoint_path: str, batch: int) -> int | None:
    """Return when a batch was planned, in epoch milliseconds by the clock of the process; None if unknown."""
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


def moved_offsets(text: str, moved: Mapping[int, str]) -> str:
    """Return the text of an offsets file with some offsets replaced, by the number of their source."""
    lines = lines_of(text)
    for line, (number, prefix, _) in _sources(lines).items():
        lines[line] = prefix + moved[number] if number in moved else lines[line]
    return "\n".join(lines)


def offset_of_line(version: str, line: str) -> str:
    """Return the offset in a line of an offsets file."""
    return line.partition(":")[2] if version == _NUMBERED else line


def _parse_offsets(text: str | None) -> tuple[str, ...]:
    lines = lines_of(text or "")
    found = {number: offset for number, _, offset in _sources(lines).values()}
    is_whole = [*range(len(lines) - _FIRST_SOURCE)] == sorted(found)
    is_valid = all(offset == NO_OFFSET or is_json(offset) for offset in found.values())
    return tuple(found[number] for number in sorted(found)) if is_whole and is_valid else ()


def _sources(lines: list[str]) -> dict[int, tuple[int, str, str]]:
    """Return the number, line prefix and offset of each source in an offsets file; {} if its version is unknown."""
    found = {}
    for place, line in enumerate(lines[_FIRST_SOURCE:]):
        if lines[0] == _ORDERED:
            found[_FIRST_SOURCE + place] = (place, "", line)
        elif lines[0] == _NUMBERED and line.partition(":")[0].isdecimal():
            number, _, offset = line.partition(":")
            found[_FIRST_SOURCE + place] = (int(number), f"{number}:", offset)
    return found


def is_json(text: str) -> bool:
    """Whether a line of a checkpoint file is complete JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
