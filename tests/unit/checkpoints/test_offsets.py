"""A Structured Streaming checkpoint has the position of its stream, also after a crash."""

from __future__ import annotations

import pathlib

import pytest

from framework.checkpoints.generations import GenerationStore, list_checkpoints
from framework.checkpoints.offsets import CheckpointProgress, moved_offsets, read_progress
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"reservoirVersion":2}\n-'


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    """An empty storage."""
    return LocalStorage(str(tmp_path))


def write_batches(storage: LocalStorage, checkpoint: str, *, planned: int, done: int) -> None:
    """Write a checkpoint with so many batches planned and done."""
    storage.write_text(f"{checkpoint}/metadata", '{"id":"4b-42"}')
    for batch in range(planned):
        storage.write_text(f"{checkpoint}/offsets/{batch}", OFFSETS.replace("2", str(batch)))
    for batch in range(done):
        storage.write_text(f"{checkpoint}/commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def test_a_checkpoint_that_does_not_exist_has_no_progress(storage: LocalStorage) -> None:
    """Before the first batch there are no offsets, and the stream is not settled."""
    progress = read_progress(storage, storage.path("none"))
    assert (progress, progress.is_settled) == (CheckpointProgress(), False)


def test_a_finished_stream_tells_the_offsets_of_its_last_batch(storage: LocalStorage) -> None:
    """Batches are ordered by number, not by text: 10 follows 9."""
    write_batches(storage, storage.path("c"), planned=11, done=11)
    progress = read_progress(storage, storage.path("c"))
    assert progress == CheckpointProgress(
        query_id="4b-42", last_offset_batch=10, last_commit_batch=10, sources=('{"reservoirVersion":10}', "-")
    )
    assert progress.is_settled


def test_sources_of_the_second_version_are_in_the_order_of_their_numbers(storage: LocalStorage) -> None:
    """Spark writes them in any order; sources with names of their own have no order."""
    write_batches(storage, storage.path("c"), planned=1, done=1)
    lines = [f'{number}:{{"at":"{number}:0"}}' for number in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8)]
    text = "\n".join(["v2", "{}", *lines, "9:-"])
    storage.write_text(storage.path("c/offsets/0"), text)
    expected = [f'{{"at":"{number}:0"}}' for number in range(11)]
    expected[9] = "-"
    assert read_progress(storage, storage.path("c")).sources == tuple(expected)
    moved = moved_offsets(text, {2: '{"at":"moved"}'})
    assert moved == text.replace('"2:0"', '"moved"')
    for damaged in (text.replace("2:", "orders:"), text.replace("\n3:", "\n2:"), text.removesuffix("9:-")):
        storage.write_text(storage.path("c/offsets/0"), damaged)
        assert read_progress(storage, storage.path("c")).sources == ()


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085"])
def test_a_value_may_have_what_python_takes_for_the_end_of_a_line(storage: LocalStorage, character: str) -> None:
    """A key of a database with such a character is in the offset as it is."""
    offset = f'{{"upper":["a{character}b"]}}'
    write_batches(storage, storage.path("c"), planned=1, done=1)
    storage.write_text(storage.path("c/offsets/0"), f"v1\n{{}}\n{offset}")
    assert read_progress(storage, storage.path("c")).sources == (offset,)


def test_a_batch_left_over_from_a_crash_is_seen(storage: LocalStorage) -> None:
    """A planned but uncommitted batch leaves the stream unsettled, at the offsets before it."""
    write_batches(storage, storage.path("c"), planned=3, done=2)
    progress = read_progress(storage, storage.path("c"))
    assert (progress.last_offset_batch, progress.last_commit_batch, progress.is_settled) == (2, 1, False)
    assert progress.sources == ('{"reservoirVersion":1}', "-")


@pytest.mark.parametrize("damage", ["", "v1\n{}", "v9\n{}\n{}", 'v1\n{}\n{"reservoirVer', None])
def test_a_damaged_offsets_file_tells_no_offsets(storage: LocalStorage, damage: str | None) -> None:
    """An empty, truncated, unknown or missing file has no sources, so the stream does not count as drained."""
    write_batches(storage, storage.path("c"), planned=2, done=2)
    storage.delete_tree("c/offsets/1")
    if damage is not None:
        storage.write_text("c/offsets/1", damage)
    assert read_progress(storage, storage.path("c")).sources == ()


def test_half_written_and_checksum_files_are_no_batches(storage: LocalStorage) -> None:
    """Other files of Spark and Hadoop between the batches are ignored."""
    write_batches(storage, storage.path("c"), planned=1, done=1)
    for name in (".0.crc", ".1.7f.tmp", "1.tmp"):
        (pathlib.Path(storage.root) / "c" / "offsets" / name).write_text("")
    assert read_progress(storage, storage.path("c")).last_offset_batch == 0


def test_the_overview_has_each_generation_with_its_progress(storage: LocalStorage) -> None:
    """Each generation of each flow is listed with the location and the progress of its checkpoint."""
    name = QualifiedName.parse("orders", catalog="main", schema="sales")
    store = GenerationStore(storage)
    for reason in ("first run", "reset"):
        store.begin(name, name, reason=reason)
    write_batches(storage, store.path(name, name, 1), planned=4, done=3)
    listed = [
        (each.generation.reason, each.path, each.progress.last_commit_batch) for each in list_checkpoints(storage)
    ]
    assert listed == [("first run", store.path(name, name, 1), 2), ("reset", store.path(name, name, 2), None)]
