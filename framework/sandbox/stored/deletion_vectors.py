"""Deletion vectors of Delta tables: the positions of deleted rows in a data file.

The format is that of Delta's protocol: 64-bit positions as an array of 32-bit roaring bitmaps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

_MAGIC = 1681511377
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_FEW_CONTAINERS = 4
"""The number of containers from which a bitmap with runs has their offsets, which are not needed here."""

_MOST_IN_ARRAY = 4096
_BITMAP_BYTES = 8192


def deleted_positions(data: bytes) -> frozenset[int]:
    """Return the positions of a deletion vector.

    Args:
        data: the vector as its file or the log has it, from its magic number on.

    Raises:
        ValueError: it has another format.
    """
    magic, count = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        msg = f"a deletion vector begins with {magic}"
        raise ValueError(msg)
    place, found = 12, set[int]()
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, place)
        bitmap = _Bitmap(data, place + 4)
        found.update((high << 32) + low for low in bitmap.positions())
        place = bitmap.place
    return frozenset(found)


class _Bitmap:
    """A roaring bitmap in its portable format.

    Args:
        data: the bytes.
        place: where it begins; after `positions`, where it ends.
    """

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self.place = place

    def positions(self) -> Iterator[int]:
        """Yield the positions in ascending order."""
        (cookie,) = self._read("<I")
        kind = cookie & 0xFFFF
        if kind not in (_WITHOUT_RUNS, _WITH_RUNS):
            msg = f"a roaring bitmap begins with {cookie}"
            raise ValueError(msg)
        count = (cookie >> 16) + 1 if kind == _WITH_RUNS else self._read("<I")[0]
        flags = self._bytes((count + 7) // 8) if kind == _WITH_RUNS else b""
        headers = [self._read("<HH") for _ in range(count)]
        if kind == _WITHOUT_RUNS or count >= _FEW_CONTAINERS:
            self.place += 4 * count
        for number, (high, last) in enumerate(headers):
            is_runs = bool(flags) and bool(flags[number // 8] >> (number % 8) & 1)
            yield from ((high << 16) + low for low in self._container(last + 1, is_runs=is_runs))

    def _container(self, count: int, *, is_runs: bool) -> Iterable[int]:
        if is_runs:
            (runs,) = self._read("<H")
            pairs = [self._read("<HH") for _ in range(runs)]
            return [low for start, more in pairs for low in range(start, start + more + 1)]
        if count <= _MOST_IN_ARRAY:
            return self._read(f"<{count}H")
        bits = int.from_bytes(self._bytes(_BITMAP_BYTES), "little")
        return [low for low in range(1 << 16) if bits >> low & 1]

    def _read(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self.data, self.place)
        self.place += struct.calcsize(form)
        return found

    def _bytes(self, count: int) -> bytes:
        self.place += count
        return self.data[self.place - count : self.place]
