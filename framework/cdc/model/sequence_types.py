"""Types of sequences: the common type of several flows, and the type in which a table stores sequences."""

from __future__ import annotations

from pyspark.sql.types import DataType, DoubleType, FloatType, IntegralType, LongType, StructField, StructType

from framework.schema.data_types import common_type, plain_type
from framework.schema.lattice import AUTO_CDC


def common_sequence(left: DataType, right: DataType) -> DataType | None:
    """Return the `common_type` of two sequences; structs need the same number of fields, which match by position."""
    if isinstance(left, StructType) and isinstance(right, StructType):
        if len(left) != len(right):
            return None
        pairs = [common_sequence(a.dataType, b.dataType) for a, b in zip(left.fields, right.fields, strict=True)]
        if any(pair is None for pair in pairs):
            return None
        return StructType([StructField(f.name, t) for f, t in zip(left.fields, pairs, strict=True) if t is not None])
    return common_type(left, right, AUTO_CDC)


def stored_sequence(data_type: DataType) -> DataType:
    """Return the storage type of a sequence: the widest of its kind, so that it never has to be widened.

    The fields of a struct are named by their position, because their order depends on nothing else.
    """
    if isinstance(data_type, IntegralType):
        return LongType()
    if isinstance(data_type, FloatType):
        return DoubleType()
    if isinstance(data_type, StructType):
        parts = enumerate(data_type.fields, start=1)
        return StructType([StructField(f"part{index}", stored_sequence(field.dataType)) for index, field in parts])
    return plain_type(data_type)
