"""A Bloom filter of a batch's keys, which drops most rows of other keys during a table scan.

The rows that remain are shuffled and sorted for the join with the batch. A filter lets a few rows of other keys pass,
and never drops a row of the batch's keys, because equal keys have equal hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.model.columns import column
from framework.engine.plans.expressions import bloom_filter, might_contain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BITS_PER_KEY = 12
"""With 12 bits, 1 of 300 other keys passes."""


def with_keys_of(rows: DataFrame, source: DataFrame, keys: Sequence[str], *, key_count: int) -> DataFrame:
    """Return the rows whose keys may occur in source rows.

    Args:
        rows: rows of a table.
        source: rows that are already computed; the filter reads them in a separate job.
        keys: the key columns of both.
        key_count: the number of source rows.
    """
    hashed, items = F.xxhash64(*map(column, keys)), max(1, key_count)
    return rows.where(might_contain(bloom_filter(source, hashed, items=items, bits=_BITS_PER_KEY * items), hashed))
