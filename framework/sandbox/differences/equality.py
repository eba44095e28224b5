"""Equality of values by their types, as AUTO CDC has it (docs/adr/0015-values-are-compared-by-type.md)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, VariantType

from framework.sandbox.values.misfits import Misfit

_NAN = ("NaN",)


def comparable(value: Any, data_type: DataType) -> Hashable:
    """Return a hashable value that two values of a type share if and only if they are equal.

    NaN equals NaN, and 0.0 equals -0.0, at any depth. Decimals are equal by their number, points in time by their
    instant, maps regardless of the order of their entries, and variants by their values.

    Args:
        value: as `framework.sandbox.values.typed_values.typed_value` returns it, or a `Misfit`, which equals nothing.
        data_type: its type.
    """
    if value is None or isinstance(value, Misfit):
        return value
    match data_type:
        case DoubleType() | FloatType():
            return _float(value)
        case VariantType():
            return _variant(value.toPython())
        case StructType() | ArrayType() | MapType():
            return _nested(value, data_type)
    return value  # type: ignore[no-any-return] # of a type whose values Python compares in the same way


def _nested(value: Any, data_type: StructType | ArrayType | MapType) -> Hashable:
    if isinstance(data_type, StructType):
        parts = zip(value, data_type.fields, strict=True)
        return tuple(comparable(each, field.dataType) for each, field in parts)
    if isinstance(data_type, ArrayType):
        return tuple(comparable(each, data_type.elementType) for each in value)
    key, inner = data_type.keyType, data_type.valueType
    return frozenset((comparable(name, key), comparable(each, inner)) for name, each in value.items())


def _float(value: float) -> Hashable:
    return _NAN if value != value else value + 0.0  # noqa: PLR0124 - only NaN differs from itself; -0.0 + 0 is 0.0


def _variant(value: Any) -> Hashable:
    """Return the comparable form of a variant's value; a number does not equal a text or a boolean."""
    match value:
        case Mapping():
            return "object", frozenset((name, _variant(each)) for name, each in value.items())
        case list():
            return "array", tuple(map(_variant, value))
        case bool():
            return "boolean", value
        case float():
            return "number", _float(value)
        case int() | Decimal():
            return "number", value
    return type(value).__name__, value
