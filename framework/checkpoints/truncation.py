"""Copies of a checkpoint as of one of its batches, for a query that continues from there.

Spark keeps the offsets, commits and state of its last batches (`spark.sql.streaming.minBatchesToRetain`, 100). The
state after batch `n` is version `n + 1`. A copy leaves later files out, because Spark would read a newer state snapshot
in place of the right one. The copy has a new query id, because Delta's sink skips batches that it has of a known query.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from framework.checkpoints.offsets import moved_offsets, read_offsets
from framework.foundation.files.storage_port import Storage

_LZ4 = "LZ4Block"
_ENDS_LZ4 = 21
"""The bytes of the last block: the magic bytes, the codec's method, and three zeros."""

_EMPTY_NUMBERS = "\0" * 12
_BEGINS = (_LZ4, "(\ufffd/\ufffd", "\ufffdSNAPPY\0", "ZV")
"""The first bytes of LZ4, Zstandard, Snappy and LZF as text, in which invalid bytes are replaced."""

_BEGINS_ARCHIVE = "PK"
_MOST_BYTES = 1 << 20


_STATE_FILE = re.compile(r"(\d+)(?:_[^.]*)?\.(delta|changelog|snapshot|zip)")
_BATCH_FILE = re.compile(r"(?:offsets|commits|state/\d+/_metadata/v2)/(\d+)")
_COMPLETE = frozenset({"snapshot", "zip"})
_CHECKSUM = ".crc"


def missing_for(storage: Storage, checkpoint: str, batch: int) -> str | None:
    """Return what a checkpoint lacks to continue after a batch, as a clause; None if nothing is missing.

    Args:
        storage: reads the checkpoint.
        checkpoint: its path.
        batch: the last batch to keep.
    """
    if not read_offsets(storage, checkpoint, batch):
        return f"the offsets of batch {batch}"
    versions = _versions(_files(storage, f"{checkpoint}/state"))
    if versions and not storage.exists(f"{checkpoint}/commits/{batch}"):
        return f"the watermark after batch {batch}"
    if not all(_has_version(kinds, batch + 1) for kinds in versions.values()):
        return f"the state of its operators after batch {batch}"
    return None


def has_state_of(storage: Storage, folder: str, version: int) -> bool:
    """Return whether a state partition has a version of each of its stores, in files that are not broken.

    A partition that has only files of an unknown format is assumed to have the version.

    Args:
        storage: the storage with the checkpoint.
        folder: the folder of the partition.
        version: the version; the one after batch `n` is `n + 1`.
    """
    sizes = {path: size for path, size in _sizes(storage, folder) if not path.startswith("_metadata/")}
    versions = _versions(path for path, size in sizes.items() if size)
    if not any(sizes.values()) or not all(_has_version(kinds, version) for kinds in versions.values()):
        return False
    needed = (path for path in sizes if _is_needed(path, versions, version))
    return not any(is_state_file_broken(storage, f"{folder}/{path}", sizes[path]) for path in needed)


def _is_needed(path: str, versions: Mapping[str, Mapping[int, set[str]]], version: int) -> bool:
    """Whether a file is needed to read a version of a store: its last snapshot, or a later change file."""
    store, _, name = path.rpartition("/")
    found = _STATE_FILE.fullmatch(name)
    if found is None or int(found[1]) > version:
        return False
    snapshots = [each for each, kinds in versions.get(store, {}).items() if kinds & _COMPLETE and each <= version]
    begin = max(snapshots, default=0)
    return int(found[1]) > begin or (int(found[1]) == begin and found[2] in _COMPLETE)


def _versions(paths: Iterable[str]) -> dict[str, dict[int, set[str]]]:
    """Return the file kinds of each version of each store, by the store's folder."""
    versions: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in paths:
        folder, _, name = path.rpartition("/")
        found = _STATE_FILE.fullmatch(name)
        if found is not None:
            versions[folder][int(found[1])].add(found[2])
    return versions


def _has_version(kinds: Mapping[int, set[str]], version: int) -> bool:
    """Whether a version of a state store is complete: a snapshot, or all changes since a snapshot or the start."""
    while version > 0 and not kinds.get(version, set()) & _COMPLETE:
        if version not in kinds:
            return False
        version -= 1
    return True


def copy_until(storage: Storage, source: str, target: str, batch: int, moved: Mapping[int, str]) -> None:
    """Copy a checkpoint as it was after a batch.

    Args:
        storage: the storage with the checkpoint and the copy.
        source: the path of the checkpoint.
        target: the path of the copy; existing files there are deleted.
        batch: the last batch of the copy.
        moved: offsets to replace, by the number of their source.
    """
    storage.delete_tree(target)
    for path in _files(storage, source):
        if _belongs(path, batch):
            storage.copy_file(f"{source}/{path}", f"{target}/{path}")
    # A restarted query reads its last batch from a source again, unless both ends of the batch are the same.
    for number in (batch - 1, batch):
        text = storage.read_text(f"{source}/offsets/{number}")
        if text is not None and moved:
            _write(storage, f"{target}/offsets/{number}", moved_offsets(text, moved))
    if not storage.exists(f"{target}/commits/{batch}"):  # the process died after the table's commit
        previous = storage.read_text(f"{source}/commits/{batch - 1}") or 'v1\n{"nextBatchWatermarkMs":0}'
        _write(storage, f"{target}/commits/{batch}", previous)
    _write(storage, f"{target}/metadata", json.dumps({"id": str(uuid.uuid4())}))


def _write(storage: Storage, path: str, text: str) -> None:
    """Replace a file of Spark and delete its checksum, which no longer matches the content."""
    storage.delete_tree(path + _CHECKSUM)
    storage.write_text(path, text)


def _belongs(path: str, batch: int) -> bool:
    """Whether a checkpoint file existed after a batch and is copied as it is."""
    plain = path.removesuffix(_CHECKSUM)
    of_batch, of_state = _BATCH_FILE.fullmatch(plain), _STATE_FILE.fullmatch(plain.rpartition("/")[2])
    if of_batch is not None:
        return int(of_batch[1]) <= batch
    if plain.startswith("state/") and of_state is not None:
        return int(of_state[1]) <= batch + 1
    return plain != "metadata"


def _files(storage: Storage, folder: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, relative to it."""
    return (path for path, _ in _sizes(storage, folder))


def _sizes(storage: Storage, folder: str, below: str = "") -> Iterator[tuple[str, int]]:
    """Yield the paths of all files below a folder, relative to it, with their sizes in bytes."""
    files = {file.name: file.size for file in storage.list_files(folder)}
    for name in storage.list_names(folder):
        if name not in files:
            yield from _sizes(storage, f"{folder}/{name}", f"{below}{name}/")
        else:
            yield f"{below}{name}", files[name]


def is_state_file_broken(storage: Storage, path: str, size_bytes: int) -> bool:
    """Whether Spark certainly can't read a state file; False for a large file, which is not read.

    Args:
        storage: the storage with the file.
        path: a change file or a snapshot.
        size_bytes: the size of the file.
    """
    if not size_bytes or size_bytes > _MOST_BYTES:
        return not size_bytes
    text = storage.read_text(path) or ""
    if path.endswith(".zip"):
        return not text.startswith(_BEGINS_ARCHIVE)
    if not text.startswith(_BEGINS):
        return True
    end = text[-_ENDS_LZ4:]
    return text.startswith(_LZ4) and not (end.startswith(_LZ4) and end.endswith(_EMPTY_NUMBERS))
