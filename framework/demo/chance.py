"""Chances that are settled by a flight's key alone, so that a feed is the same bytes each time.

The fate of a flight does not depend on how many months are fed, nor on any generator's state.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

Hashes = npt.NDArray[np.uint64]
Fractions = npt.NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def hash_keys(keys: pd.DataFrame) -> Hashes:
    """One 64-bit hash for each row."""
    return np.asarray(pd.util.hash_pandas_object(keys, index=False), dtype=np.uint64)


def draw(hashes: Hashes, salt: int) -> Fractions:
    """One number in [0, 1) for each hash; another salt gives an independent one (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = hashes + np.uint64(salt) * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
        mixed = mixed ^ (mixed >> np.uint64(31))
    fractions: Fractions = (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    return fractions
