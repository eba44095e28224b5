"""A copy of a checkpoint has what Spark had written when a batch ended, and nothing of later batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from framework.checkpoints.truncation import copy_until, missing_for
from framework.foundation.files.local_storage import LocalStorage
from framework.sources.files.source import FileSource
from framework.sources.port import RewindableSource, RewindPosition

OFFSETS = 'v1\n{"batchWatermarkMs":7}\n{"reservoirVersion":4}\n{"logOffset":1}'


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """A checkpoint `old` with batches 3 to 5, state and lists of files."""
    storage = LocalStorage(str(tmp_path))
    files = {
        "metadata": '{"id":"old"}',
        "metadata.crc": "x",
        **{f"offsets/{batch}": OFFSETS for batch in (3, 4, 5)},
        **{f"commits/{batch}": f"v1\n{{}}{batch}" for batch in (3, 4, 5)},
        "state/0/_metadata/metadata": "v1",
        "state/0/_metadata/v2/5": "later",
        "state/0/0/3.snapshot": "s3",
        **{f"state/0/0/{version}.delta": f"d{version}" for version in (4, 5, 6)},
        "state/0/0/6.snapshot": "s6",
        "state/0/1/left/5_0a1b.zip": "z5",
        "state/0/1/left/6_0a1b.changelog": "c6",
        "state/0/1/left/SSTs/000007.sst": "shared",
        "cloud_files/0/files/000000000001-000000000005": "",
    }
    for path, text in files.items():
        storage.write_text(f"old/{path}", text)
    return storage


def files_of(storage: LocalStorage, folder: str) -> dict[str, str]:
    """The files below a folder with their texts."""
    root = Path(storage.path(folder))
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in found}


def test_a_copy_ends_with_its_batch_and_is_a_new_query(storage: LocalStorage) -> None:
    """Later offsets, commits and state are left out, and what a partial copy had left is deleted."""
    storage.write_text("new/offsets/9", "of an attempt that was killed")
    copy_until(storage, "old", "new", 4, {})
    found = files_of(storage, "new")
    assert json.loads(found.pop("metadata"))["id"] not in {"", "old"}
    before = files_of(storage, "old")
    kept = {path for path in before if not path.startswith("metadata") and "/5" not in path and "/6" not in path}
    kept |= {"state/0/0/5.delta", "state/0/1/left/5_0a1b.zip"}
    assert found == {path: before[path] for path in kept}


def test_offsets_are_replaced_in_the_last_two_batches(storage: LocalStorage) -> None:
    """The last batch begins and ends at the new offset of a source, so that Spark does not ask for its rows."""
    copy_until(storage, "old", "new", 4, {0: '{"reservoirVersion":9}'})
    moved = OFFSETS.replace('"reservoirVersion":4', '"reservoirVersion":9')
    assert [storage.read_text(f"new/offsets/{batch}") for batch in (3, 4)] == [moved, moved]


def test_what_is_gone_is_said(storage: LocalStorage) -> None:
    """Offsets that Spark has deleted, a state without its changes since a snapshot, and an unknown watermark."""
    assert missing_for(storage, "old", 4) is None
    assert missing_for(storage, "old", 2) == "the offsets of batch 2"
    storage.delete_tree("old/state/0/0/4.delta")
    assert missing_for(storage, "old", 4) == "the state of its operators after batch 4"
    assert missing_for(storage, "old", 5) is None
    storage.delete_tree("old/commits/5")
    assert missing_for(storage, "old", 5) == "the watermark after batch 5"


def test_the_list_of_files_ends_at_the_offset(storage: LocalStorage) -> None:
    """Also if Spark has merged it with later ones; the files after it are read again, and must be there."""
    for number in range(4):
        if number != 2:
            storage.write_text(f"in/{number}.json", "")
    lines = [
        json.dumps({"path": f"file://{storage.path('in')}/{number}.json", "timestamp": 1, "batchId": number})
        for number in range(4)
    ]
    storage.write_text("old/sources/1/2.compact", "\n".join(["v1", *lines[:3]]))
    storage.write_text("old/sources/1/3", "\n".join(["v1", lines[3]]))
    position = RewindPosition(storage=storage, checkpoint="old", offsets=("-", '{"logOffset":1}'))
    source = cast("RewindableSource", FileSource())
    assert source.describe(position) == ("files: 2 of 4 again",)
    assert source.lost_since(position) == f"{storage.path('in')}/2.json is gone"
    source.truncate(position)
    source.truncate(position)
    assert files_of(storage, "old/sources/1") == {"1.compact": "\n".join(["v1", *lines[:2]])}
    storage.write_text("old/sources/1/2", "\n".join(["v1", lines[2]]))
    storage.write_text("old/sources/1/3", "\n".join(["v1", lines[3]]))
    source.truncate(RewindPosition(storage=storage, checkpoint="old", offsets=("-", '{"logOffset":2}')))
    assert [*files_of(storage, "old/sources/1")] == ["1.compact", "2"]
