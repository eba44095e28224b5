"""Chunks and offsets of a snapshot as values."""

from __future__ import annotations

import json

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import (
    BEGINNING,
    Bound,
    Chunk,
    ChunkKind,
    KeyColumn,
    PlanBasis,
    SnapshotOffset,
    advance,
    chunks_between,
    percent_done,
    read_offset,
    remaining_seconds,
)

KEY = KeyColumn(name='a "b"', type_name="pg_catalog.text", collation='pg_catalog."C"')
BASIS = PlanBasis(kind=ChunkKind.KEY, source_identity="7/1/db", storage_id="1:2", key=(KEY,), generation=3)
NULLABLE = PlanBasis(
    kind=ChunkKind.KEY,
    source_identity="7/1/db",
    storage_id="1:2",
    key=(KeyColumn(name="a", type_name="pg_catalog.int4", operator_schema="x", nullable=True),),
)


def bounds(*texts: str) -> tuple[Bound, ...]:
    """Bounds of one column."""
    return tuple(Bound((text,)) for text in texts)


def step(previous: SnapshotOffset | None, *texts: str, finished: bool = False) -> SnapshotOffset:
    """The next offset, with ten rows per bound."""
    basis = previous.basis if previous else BASIS
    return advance(basis, previous, bounds=bounds(*texts), rows=10 * len(texts), finished=finished)


def test_chunks_of_batches_join_to_ranges_without_gap() -> None:
    """The first chunk is open below, the last one above, and each begins where the one before ends."""
    first = step(None, "b", "d")
    second = step(first, "é'\\")
    last = step(second, "x", finished=True)
    chunks = chunks_between(None, first) + chunks_between(first, second) + chunks_between(second, last)
    uppers = ["b", "d", "é'\\", "x", None]
    expected = tuple(
        Chunk(
            number=number,
            kind=ChunkKind.KEY,
            lower=None if number == 1 else Bound((str(uppers[number - 2]),)),
            upper=None if upper is None else Bound((upper,)),
        )
        for number, upper in enumerate(uppers, start=1)
    )
    assert expected == chunks
    assert [2, 3, 5] == [offset.chunks_planned for offset in (first, second, last)]


def test_nullable_keys_get_a_chunk_of_their_own_at_the_end() -> None:
    """It follows the open chunk and counts."""
    last = advance(NULLABLE, None, bounds=bounds("5"), rows=9, finished=True)
    kinds = [(chunk.number, chunk.kind) for chunk in chunks_between(None, last)]
    assert [(1, ChunkKind.KEY), (2, ChunkKind.KEY), (3, ChunkKind.NULL_KEY)] == kinds
    assert 3 == last.chunks_planned


def test_a_table_without_bounds_is_one_chunk() -> None:
    """A plan of one WHOLE chunk is finished at once."""
    basis = PlanBasis(kind=ChunkKind.WHOLE, source_identity="s", storage_id="1")
    last = advance(basis, None, bounds=(), rows=5, finished=True)
    assert (Chunk(number=1, kind=ChunkKind.WHOLE),) == chunks_between(None, last)


def test_the_same_offset_has_no_chunks() -> None:
    """A batch without progress is empty."""
    offset = step(None, "b")
    assert () == chunks_between(offset, offset)
    assert () == chunks_between(None, None)


@pytest.mark.parametrize("basis", [BASIS, NULLABLE])
def test_offsets_survive_json(basis: PlanBasis) -> None:
    """Whatever the bounds contain."""
    texts = ("", " ", "'; DROP TABLE x; --", "\\", '"', "naïve 🦆", "\u2028\n\t")
    offset = advance(basis, None, bounds=bounds(*texts), rows=7, finished=True)
    assert offset == SnapshotOffset.from_json(offset.to_json())
    assert offset == read_offset(offset.to_json())
    assert read_offset(BEGINNING) is None


def changed(**fields: object) -> str:
    """The JSON of a valid offset with other values of some fields."""
    return json.dumps({**json.loads(step(None, "b").to_json()), **fields})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        (changed(version=2), "its version is 2, but this release reads version 1"),
        (changed(kind="slice"), "it has a missing or malformed field: 'slice' is not a valid ChunkKind"),
        (changed(chunks="1"), "it has a missing or malformed field: chunks"),
        (changed(chunks=True), "it has a missing or malformed field: chunks"),
        (changed(bounds=[[1]]), "it has a missing or malformed field: bounds"),
        (changed(key=["a"]), "it has a missing or malformed field: string indices must be integers, not 'str'"),
        (changed(bounds=[["a", "b"]]), "a bound has another number of values than the key has columns"),
        (changed(bounds=[]), "it has neither bounds nor the end of the snapshot"),
        (changed(chunks=0), "it counts fewer chunks than its batch has"),
        (changed(key=[]), "a plan by key with 0 key columns does not exist"),
        (changed(kind="null_key"), "a plan by null_key with 1 key columns does not exist"),
    ],
)
def test_an_offset_that_cannot_be_read_is_named(text: str, problem: str) -> None:
    """The error says what is wrong with it."""
    with pytest.raises(SourceError) as caught:
        read_offset(text)
    assert ("SNAPSHOT_OFFSET_INVALID", problem) == (caught.value.condition, caught.value.fields["problem"])


def test_the_beginning_is_no_offset_of_a_batch() -> None:
    """`from_json` refuses it."""
    with pytest.raises(SourceError, match="it is the beginning of the snapshot"):
        SnapshotOffset.from_json(BEGINNING)


def test_offsets_that_do_not_follow_each_other_are_refused() -> None:
    """Otherwise a batch would silently read too few or too many rows."""
    first = step(None, "b")
    second = step(first, "d")
    third = step(second, "f", finished=True)
    other = advance(NULLABLE, None, bounds=bounds("1"), rows=1, finished=False)
    for start, end in [
        (first, third),
        (second, first),
        (None, second),
        (third, second),
        (other, second),
        (first, None),
    ]:
        with pytest.raises(SourceError) as caught:
            chunks_between(start, end)
        assert "SNAPSHOT_OFFSET_INVALID" == caught.value.condition


def test_progress_is_by_rows_and_complete_only_at_the_end() -> None:
    """Wrong statistics never show 100 percent too early; a table without statistics shows 0."""
    first = step(None, "b", "d")
    last = step(first, finished=True)
    assert [0.0, 20.0, 99.0, 0.0, 100.0] == [
        percent_done(None, 100),
        percent_done(first, 100),
        percent_done(first, 10),
        percent_done(first, 0),
        percent_done(last, 100),
    ]


def test_the_remaining_time_goes_by_the_rate_of_this_run() -> None:
    """It is unknown before any rows are read, and 0 at the end."""
    first = step(None, "b", "d")
    assert 40.0 == remaining_seconds(first, 100, rows_read=10, elapsed_seconds=5)
    assert 50.0 == remaining_seconds(None, 100, rows_read=10, elapsed_seconds=5)
    assert remaining_seconds(first, 100, rows_read=0, elapsed_seconds=5) is None
    assert remaining_seconds(first, 0, rows_read=10, elapsed_seconds=5) is None
    assert 0.0 == remaining_seconds(first, 15, rows_read=10, elapsed_seconds=5)
    assert 0.0 == remaining_seconds(step(first, finished=True), 100, rows_read=0, elapsed_seconds=0)
