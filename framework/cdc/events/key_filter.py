"""A Bloom filter of a batch's keys: most rows of other keys are dropped while a table is scanned.

The rows that remain are shuffled and sorted for the join with the batch. A filter lets a few rows of other keys pass,
and never drops a row of the batch's keys, because equal keys have equal hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from framework.cdc.model.columns import column
from framework.foundation.jvm_cache import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_BRIDGE = "org.apache.spark.sql.classic.ExpressionUtils"
_BITS_PER_KEY = 12
"""With 12 bits, 1 of 300 other keys passes."""


def with_keys_of(rows: DataFrame, source: DataFrame, keys: Sequence[str], *, key_count: int) -> DataFrame:
    """Return the rows whose keys may occur in source rows.

    Args:
        rows: rows of a table.
        source: rows that are computed already; the filter reads them in a job of its own.
        keys: the key columns of both.
        key_count: the number of source rows.
    """
    bridge = java_class(_BRIDGE)
    hashed = F.xxhash64(*map(column, keys))
    sizes = (_long(max(1, key_count)), _long(_BITS_PER_KEY * max(1, key_count)))
    aggregate = java_class(f"{_CATALYST}.aggregate.BloomFilterAggregate")(bridge.expression(hashed._jc), *sizes)
    bits = source.select(ClassicColumn(bridge.column(aggregate.toAggregateExpression()))).scalar()
    test = java_class(f"{_CATALYST}.BloomFilterMightContain")
    return rows.where(ClassicColumn(bridge.column(test(bridge.expression(bits._jc), bridge.expression(hashed._jc)))))


def _long(number: int) -> Any:
    return java_class(_BRIDGE).expression(F.lit(number).cast("bigint")._jc)
