"""Deletion vectors without Spark."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from framework.sandbox.stored.deletion_vectors import deleted_positions

MAGIC = struct.pack("<i", 1681511377)
_RANGES = st.lists(
    st.tuples(st.sampled_from([0, 65_000, 1 << 20, (1 << 32) - 5, 1 << 33]), st.integers(0, 9000), st.integers(1, 5)),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(ranges=_RANGES, runs=st.booleans())
def test_a_deletion_vector_has_the_positions_of_the_reference_implementation(
    *, ranges: list[tuple[int, int, int]], runs: bool
) -> None:
    """Arrays, bitmaps and runs, with positions of 32 bits and more."""
    positions = {begin + step * number for begin, count, step in ranges for number in range(count)}
    bitmap = BitMap64(positions)
    if runs:
        bitmap.run_optimize()
    assert positions == deleted_positions(MAGIC + bitmap.serialize())


@pytest.mark.parametrize("data", [struct.pack("<iq", 7, 0), MAGIC + struct.pack("<qII", 1, 0, 7)])
def test_another_format_is_an_error(data: bytes) -> None:
    """It is not read as something else."""
    with pytest.raises(ValueError, match="begins with 7"):
        deleted_positions(data)
