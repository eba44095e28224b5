"""Hashes as Spark's, against the definition of XXH64 applied to one value after the other."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from framework.foundation.xxhash64 import LONGEST, SEED, UnhashableError, can_hash, hash_column, hash_constant

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_LENGTHS = (0, 1, 3, 4, 5, 7, 8, 9, 12, 15, 31, 32, 33, 36, 40, 63, 64, 65, 100, 500)


def rotated(value: int, bits: int) -> int:
    """A word, rotated to the left."""
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def defined(data: bytes, seed: int) -> int:
    """XXH64 of bytes, word by word."""
    at, count = 0, len(data)
    found = (seed + _P5) & _MASK
    if count >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= count:
            words = [int.from_bytes(data[at + 8 * lane : at + 8 * lane + 8], "little") for lane in range(4)]
            lanes = [rotated((a + w * _P2) & _MASK, 31) * _P1 & _MASK for a, w in zip(lanes, words, strict=True)]
            at += 32
        found = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ (rotated(lane * _P2 & _MASK, 31) * _P1 & _MASK)) * _P1 + _P4) & _MASK
    found = (found + count) & _MASK
    for start in range(at, count - 7, 8):
        word = int.from_bytes(data[start : start + 8], "little")
        found = (rotated(found ^ (rotated(word * _P2 & _MASK, 31) * _P1 & _MASK), 27) * _P1 + _P4) & _MASK
    at = count // 8 * 8
    if count - at >= 4:
        half = int.from_bytes(data[at : at + 4], "little")
        found = (rotated(found ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        found = rotated(found ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    for bits, prime in ((33, _P2), (29, _P3)):
        found = (found ^ (found >> bits)) * prime & _MASK
    return found ^ (found >> 32)


def test_the_reference_is_xxh64() -> None:
    """The hash of nothing that the authors of XXH64 publish."""
    assert 0xEF46DB3751D8E999 == defined(b"", 0)


@pytest.mark.parametrize("lengths", [_LENGTHS, (64,), (40,), (7,), (0,), (12, 33)])
def test_texts_of_all_lengths_are_hashed_as_their_bytes(lengths: tuple[int, ...]) -> None:
    """Stripes, words and single bytes, also where all texts have one length, and in a part of an array."""
    random = Random(17)  # noqa: S311 - a test repeats what failed
    texts = [random.randbytes(random.choice(lengths)) for _ in range(500)]
    seeds = np.array([random.getrandbits(64) for _ in texts], np.uint64)
    expected = [defined(text, defined("naïve".encode(), int(seed))) for text, seed in zip(texts, seeds, strict=True)]
    part = pa.array([b"before", *texts, b"after"], pa.binary())[1:-1]
    assert expected == hash_column(seeds, part, "naïve").tolist()


@pytest.mark.parametrize("name", ["", "id", "a name", "twelve chars", "a name of more than thirty-two letters"])
def test_names_of_all_lengths_are_hashed_as_texts(name: str) -> None:
    """A name is the same for all rows, and is hashed once per word."""
    seeds = np.array([SEED, 7], np.uint64)
    assert [defined(name.encode(), seed) for seed in (SEED, 7)] == hash_constant(seeds, name).tolist()


def test_numbers_are_hashed_as_four_or_eight_bytes() -> None:
    """Floating point numbers have one zero and one NaN, and a decimal is its unscaled number."""
    seeds = np.full(2, SEED, np.uint64)
    seed = defined(b"n", SEED)

    def assert_bytes(values: pa.Array, *expected: bytes) -> None:
        assert [defined(each, seed) for each in expected] == hash_column(seeds, values, "n").tolist()

    def whole(value: int, size: int) -> bytes:
        return value.to_bytes(size, "little", signed=True)

    for kind, size in ((pa.int8(), 4), (pa.int16(), 4), (pa.int32(), 4), (pa.date32(), 4), (pa.int64(), 8)):
        assert_bytes(pa.array([-3, 100], pa.int64()).cast(pa.int32()).cast(kind) if size == 4 else pa.array([-3, 100]),
                     whole(-3, size), whole(100, size))  # fmt: skip
    assert_bytes(pa.array([-3, 100], pa.timestamp("us", "UTC")), whole(-3, 8), whole(100, 8))
    assert_bytes(pa.array([True, False]), whole(1, 4), whole(0, 4))
    assert_bytes(pa.array([-0.0, float("nan")]), bytes(8), bytes.fromhex("000000000000f87f"))
    assert_bytes(pa.array([-0.0, 1.5], pa.float32()), bytes(4), bytes.fromhex("0000c03f"))
    assert_bytes(pa.array(["-1.25", "0.07"]).cast(pa.decimal128(18, 2)), whole(-125, 8), whole(7, 8))


def test_a_null_leaves_the_hash_as_it_is() -> None:
    """Neither its name nor a value counts."""
    seeds = np.array([1, 2, 3], np.uint64)
    found = hash_column(seeds, pa.array([None, 5, None], pa.int64()), "n").tolist()
    assert [1, defined((5).to_bytes(8, "little"), defined(b"n", 2)), 3] == found


def test_what_spark_hashes_in_another_way_is_refused() -> None:
    """Long decimals, lists, and texts that would take too many steps."""
    assert [False, False] == [can_hash(kind) for kind in (pa.decimal128(19, 0), pa.list_(pa.string()))]
    with pytest.raises(UnhashableError):
        hash_column(np.full(1, SEED, np.uint64), pa.array(["x" * (LONGEST + 1)]), "n")
