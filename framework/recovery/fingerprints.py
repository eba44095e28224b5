"""Hashes of rows by the types of their values: equal rows have equal hashes, and NULL is a value.

Spark's `xxhash64` skips a NULL, so (NULL, 'x') and ('x', NULL) have one hash. Here a mask of the NULL columns comes
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from framework.cdc.model.columns import column
from framework.cdc.model.equality import fingerprint

_MASK_BITS = 60
_LOW_BITS = 0xFFFFFFFF


def row_hash(fields: Sequence[StructField], seed: int) -> Column:
    """Return a 64-bit hash of the values of columns; hashes of two seeds are independent.

    Args:
        fields: the columns, none of which contains a map or a variant.
        seed: any number.
    """
    masks = [_null_mask(fields[start : start + _MASK_BITS]) for start in range(0, len(fields), _MASK_BITS)]
    values = [part for field in fields for part in _parts(field)]
    return F.xxhash64(F.lit(seed), *masks, *values)


def halves(value: Column) -> tuple[Column, Column]:
    """Return the lower and the upper 32 bits of a 64-bit hash as non-negative numbers, whose sums don't overflow."""
    return value.bitwiseAND(F.lit(_LOW_BITS)), F.shiftrightunsigned(value, 32)


def _parts(field: StructField) -> tuple[Column, ...]:
    value = column(field.name)
    if not isinstance(field.dataType, StructType | ArrayType):
        return (value,)
    # Spark's own hash skips NULL elements; the fingerprint does not, but has one seed only.
    return fingerprint([field]), value


def _null_mask(fields: Sequence[StructField]) -> Column:
    none = F.lit(0).cast("bigint")
    bits = [
        F.when(column(field.name).isNull(), F.lit(1 << place).cast("bigint")).otherwise(none)
        for place, field in enumerate(fields)
    ]
    return reduce(Column.bitwiseOR, bits, none)
