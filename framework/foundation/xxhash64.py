"""Spark's function `xxhash64` over Arrow arrays, for writers of rows outside Spark.

The hash of a row chains its values: each value is hashed with the previous hash as its seed, and a NULL leaves the hash
unchanged. Numbers are hashed as 4 or 8 bytes, texts as UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SEED = 42
LONGEST = 1 << 18
"""The largest size of a text in bytes: its words are hashed one after the other, so each word costs a step."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_WORD, _HALF, _STRIPE = 8, 4, 32
_LONGEST_INTEGER = 18
"""The largest number of digits of a decimal that is hashed as an integer."""

Hashes = np.ndarray[Any, np.dtype[np.uint64]]


class UnhashableError(Exception):
    """A value that this module can't hash."""


def can_hash(kind: pa.DataType) -> bool:
    """Return whether values of a type can be hashed, unless they are too long.

    Examples:
        >>> can_hash(pa.int64()), can_hash(pa.decimal128(38, 0)), can_hash(pa.list_(pa.int64()))
        (True, False, False)
    """
    return (
        pa.types.is_signed_integer(kind)
        or kind in (pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.string(), pa.binary())
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
        or (pa.types.is_decimal128(kind) and kind.precision <= _LONGEST_INTEGER)
    )


def hash_constant(hashes: Hashes, value: int | str) -> Hashes:
    """Continue the hashes of rows with a constant value."""
    if isinstance(value, int):
        return _hash_half(hashes, _constant(value))
    text = value.encode()
    if len(text) >= _STRIPE:
        return _hash_texts(hashes, pa.repeat(pa.scalar(value), len(hashes)))
    found = hashes + _P5 + np.uint64(len(text))
    at = 0
    for at in range(0, len(text) - _WORD + 1, _WORD):
        found = _with_word(found, _constant(int.from_bytes(text[at : at + _WORD], "little")))
    at = len(text) // _WORD * _WORD
    if len(text) - at >= _HALF:
        found = _with_half(found, _constant(int.from_bytes(text[at : at + _HALF], "little")))
        at += _HALF
    for byte in text[at:]:
        found = _with_byte(found, _constant(byte))
    return _finished(found)


def hash_column(hashes: Hashes, values: pa.Array, name: str) -> Hashes:
    """Continue the hashes of rows with a name and a value; NULL values leave a hash unchanged.

    Args:
        hashes: one for each row.
        values: of a type that `can_hash` accepts.
        name: the name to hash before each value.

    Raises:
        UnhashableError: a text is longer than `LONGEST`.
    """
    if values.null_count == 0:
        return _hash_values(hash_constant(hashes, name), values)
    present = np.asarray(pc.is_valid(values))
    found = hashes.copy()
    found[present] = _hash_values(hash_constant(hashes[present], name), values.drop_null())
    return found


def _hash_values(hashes: Hashes, values: pa.Array) -> Hashes:
    kind = values.type
    if kind in (pa.string(), pa.binary()):
        return _hash_texts(hashes, values)
    if pa.types.is_decimal128(kind):
        # Two words, low word first. The low word is the whole number, because it has at most 18 digits.
        low = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset :: 2][: len(values)]
        return _hash_word(hashes, low)
    if pa.types.is_floating(kind):
        numbers = values.to_numpy()
        # Normalizes zeros and NaNs to one representation each.
        numbers = np.where(numbers == 0, numbers.dtype.type(0), np.where(np.isnan(numbers), np.nan, numbers))
        bits = numbers.astype(values.type.to_pandas_dtype()).view(np.uint32 if kind == pa.float32() else np.uint64)
        return _hash_half(hashes, bits.astype(np.uint64)) if kind == pa.float32() else _hash_word(hashes, bits)
    if kind == pa.int64() or pa.types.is_timestamp(kind):
        return _hash_word(hashes, values.cast(pa.int64()).to_numpy().view(np.uint64))
    return _hash_half(hashes, values.cast(pa.int32()).to_numpy().view(np.uint32).astype(np.uint64))


def _hash_half(hashes: Hashes, values: Any) -> Hashes:
    """Hash 4 bytes."""
    return _finished(_with_half(hashes + _P5 + np.uint64(_HALF), values))


def _hash_word(hashes: Hashes, values: Any) -> Hashes:
    """Hash 8 bytes."""
    return _finished(_with_word(hashes + _P5 + np.uint64(_WORD), values))


def _hash_texts(hashes: Hashes, values: pa.Array) -> Hashes:
    """Hash bytes in stripes of 32, then words of 8, 4 and 1 byte; each step handles all texts that are long enough."""
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    if not len(lengths):
        return hashes
    if lengths.max() > LONGEST:
        raise UnhashableError
    first, last = int(offsets[0]), int(offsets[-1])
    # Padding, because the last word may be shorter than 8 bytes.
    data = np.zeros(last - first + _WORD, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
    at, end = offsets[:-1] - first, offsets[1:] - first
    found = _hash_stripes(hashes, words, at, lengths)
    found += lengths.astype(np.uint64)
    _each_step(found, at, end, _WORD, lambda part, place: _with_word(part, words[place]))
    rows = np.nonzero(end - at >= _HALF)[0]
    found[rows] = _with_half(found[rows], words[at[rows]] & np.uint64(0xFFFFFFFF))
    at[rows] += _HALF
    _each_step(found, at, end, 1, lambda part, place: _with_byte(part, data[place].astype(np.uint64)))
    return _finished(found)


def _each_step(found: Hashes, at: Any, end: Any, size: int, step: Callable[[Any, Any], Any]) -> None:
    """Continue the hashes with words of `size` bytes, as long as a text has that many bytes left."""
    while (end - at).min() >= size:  # fast path: every text has one more word
        found[:] = step(found, at)
        at += size
    rows = np.nonzero(end - at >= size)[0]
    while len(rows):
        found[rows] = step(found[rows], at[rows])
        at[rows] += size
        rows = rows[end[rows] - at[rows] >= size]


def _hash_stripes(seeds: Hashes, words: Hashes, at: Any, lengths: Any) -> Hashes:
    """Return the hashes up to the last whole stripe of each text, and advance the positions beyond it."""
    found = seeds + _P5
    rows = np.nonzero(lengths >= _STRIPE)[0]
    if not len(rows):
        return found
    seed, position, left = seeds[rows], at[rows], lengths[rows] // _STRIPE
    lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    while (least := left.min()) > 0 and least == left.max():
        lanes = [_with_lane(lane, words[position + number * _WORD]) for number, lane in enumerate(lanes)]
        position, left = position + _STRIPE, left - 1
    inside = np.nonzero(left > 0)[0]
    while len(inside):
        for number, lane in enumerate(lanes):
            lane[inside] = _with_lane(lane[inside], words[position[inside] + number * _WORD])
        position[inside] += _STRIPE
        left[inside] -= 1
        inside = inside[left[inside] > 0]
    merged = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        merged = (merged ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    found[rows] = merged
    at[rows] = position
    return found


def _constant(value: int) -> Hashes:
    """Return a constant for all rows as an array: numpy reports the overflow of a scalar, but not of an array."""
    return np.array([value], np.uint64)


def _with_lane(lane: Hashes, values: Any) -> Any:
    return _rotated(lane + values * _P2, 31) * _P1


def _with_byte(hashes: Hashes, values: Any) -> Any:
    return _rotated(hashes ^ (values * _P5), 11) * _P1


def _with_word(hashes: Hashes, values: Any) -> Any:
    return _rotated(hashes ^ (_rotated(values * _P2, 31) * _P1), 27) * _P1 + _P4


def _with_half(hashes: Hashes, values: Any) -> Any:
    return _rotated(hashes ^ (values * _P1), 23) * _P2 + _P3


def _rotated(values: Any, bits: int) -> Any:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finished(hashes: Any) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    found: Hashes = hashes ^ (hashes >> np.uint64(32))
    return found
