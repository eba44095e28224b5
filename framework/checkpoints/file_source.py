"""Whether Spark's file stream source has read every file of its folders, told without Spark.

The source notes the files of each batch in `sources/<n>/<batch>` of the checkpoint: a version line,
then one JSON object a file; every tenth or so gathers those before it as `<batch>.compact`. A path
once noted is never read again, so a folder that holds only noted paths has nothing new.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from framework.foundation.storage_port import Storage

_MOST_FILES = 20_000


def is_file_offset(offset_json: str) -> bool:
    """Whether an offset is one of Spark's file stream source."""
    try:
        offset = json.loads(offset_json)
    except ValueError:
        return False
    return isinstance(offset, dict) and set(offset) == {"logOffset"}


def folders_are_drained(storage: Storage, checkpoint_path: str, sources: int, folders: Sequence[str]) -> bool:
    """Whether every file below the folders was noted by one of the checkpoint's sources.

    False when that can't be told: folders that share files, or more than 20,000 files.
    """
    if not folders or _overlap(folders):
        return False
    present: set[str] = set()
    for folder in folders:
        for file in _files_below(storage, _plain(folder)):
            present.add(file)
            if len(present) > _MOST_FILES:
                return False
    noted = {path for number in range(sources) for path in _noted(storage, f"{checkpoint_path}/sources/{number}")}
    return present <= noted


def _files_below(storage: Storage, folder: str) -> Iterator[str]:
    """Paths of all files in a folder and those below it; names that Spark passes over are left out."""
    files = {file.name for file in storage.list_files(folder)}
    for name in storage.list_names(folder):
        if name.startswith(("_", ".")):
            continue
        if name in files:
            yield f"{folder}/{name}"
        else:
            yield from _files_below(storage, f"{folder}/{name}")


def _noted(storage: Storage, log: str) -> Iterator[str]:
    for name in storage.list_names(log):
        for line in (storage.read_text(f"{log}/{name}") or "").splitlines():
            if line.startswith("{"):
                yield _plain(unquote(str(json.loads(line)["path"])))


def _plain(path: str) -> str:
    """A local path without its scheme, a URI as it is; no slash at the end."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path.rstrip("/")


def _overlap(folders: Sequence[str]) -> bool:
    plain = [f"{_plain(folder)}/" for folder in folders]
    return any(
        first.startswith(second)
        for index, first in enumerate(plain)
        for other, second in enumerate(plain)
        if index != other
    )
