"""Types to which Delta widens a column without a rewrite of its files, and without loss."""

from __future__ import annotations

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
)

WIDENING_PROPERTY = "delta.enableTypeWidening"
"""The table property that allows wider types of columns."""

_WHOLE: dict[type[DataType], int] = {ByteType: 1, ShortType: 2, IntegerType: 3, LongType: 4}
"""Types of whole numbers, from the narrowest on."""
_DIGITS: dict[type[DataType], int] = {ByteType: 10, ShortType: 10, IntegerType: 10, LongType: 20}
"""The least precision of a decimal to which Delta widens a whole number."""
_EXACT_IN_DOUBLE = {ByteType, ShortType, IntegerType, FloatType, DoubleType}
"""A known FLOAT stays one. Delta would keep the statistics of its files, where 0.1 stands for the float 0.100000001…:
queries would skip files whose values, as doubles, are above the greatest or below the least one of the statistics."""
_MOST_DIGITS = 38


def wider_type(known: DataType, found: DataType) -> DataType | None:
    """Return the narrowest type with all values of both types to which Delta widens `known`; None if there is none.

    Structs, arrays and maps have no wider type: their parts have.

    Examples:
        >>> wider_type(IntegerType(), LongType()), wider_type(LongType(), IntegerType())
        (LongType(), LongType())
        >>> wider_type(IntegerType(), DecimalType(5, 2)), wider_type(LongType(), DoubleType())
        (DecimalType(12,2), None)
        >>> wider_type(IntegerType(), FloatType()), wider_type(FloatType(), DoubleType())
        (DoubleType(), None)
    """
    if known == found:
        return known
    types = {type(known), type(found)}
    if types <= set(_WHOLE):
        return max(known, found, key=lambda kind: _WHOLE[type(kind)])
    if types <= _EXACT_IN_DOUBLE and not isinstance(known, FloatType):
        return DoubleType()
    if types == {DateType, TimestampNTZType}:
        return TimestampNTZType()
    return _wider_decimal(known, found)


def _wider_decimal(known: DataType, found: DataType) -> DecimalType | None:
    parts = [_decimal_digits(kind) for kind in (known, found)]
    whole, scale = (
        (max(each[index] for each in parts if each is not None) for index in (0, 1)) if all(parts) else (0, 0)
    )
    return DecimalType(whole + scale, scale) if 0 < whole + scale <= _MOST_DIGITS else None


def _decimal_digits(kind: DataType) -> tuple[int, int] | None:
    """The digits before and after the point."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (_DIGITS[type(kind)], 0) if type(kind) in _DIGITS else None
