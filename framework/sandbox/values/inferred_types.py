"""The types of the columns of rows that no schema describes, inferred from all values.

| values | type |
| --- | --- |
| whole numbers of at most 64 bits; a text such as `007` is no number | BIGINT |
| numbers with a decimal point or an exponent, some of them whole | DOUBLE |
| `Decimal` of Python, some of them whole numbers | DECIMAL with the digits of all of them |
| `true` and `false` | BOOLEAN |
| dates such as `2026-01-31` | DATE |
| points in time such as `2026-01-31 12:30:00`, some of them dates; `datetime` of Python | TIMESTAMP |
| dicts, named tuples and dataclasses, and JSON objects in text tables | STRUCT with the fields of all of them |
| lists, and JSON arrays in text tables | ARRAY |
| `bytes`, `timedelta`, `time` of Python | BINARY, INTERVAL DAY TO SECOND, TIME |
| other cells of text tables, or cells of several kinds; no value but NULL | STRING |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    TimeType,
    VariantType,
    VariantVal,
)

from framework.sandbox.values.misfits import MisfitError
from framework.sandbox.values.text_tables import TextCell
from framework.sandbox.values.typed_values import as_mapping, of_python, typed_value

_WHOLE = re.compile(r"[+-]?(?:0|[1-9]\d*)")
_CELLS: Sequence[tuple[re.Pattern[str], DataType]] = (
    (re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?|-?Infinity|NaN"), DoubleType()),
    (re.compile(r"true|false", re.IGNORECASE), BooleanType()),
    (re.compile(r"\d{4}-\d{2}-\d{2}"), DateType()),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d.*"), TimestampType()),
)
"""The texts of cells that may have a type."""

_MOST_DIGITS = 38
_KINDS: Mapping[type, DataType] = {
    bool: BooleanType(),
    str: StringType(),
    bytes: BinaryType(),
    bytearray: BinaryType(),
    float: DoubleType(),
    date: DateType(),
    datetime: TimestampType(),
    timedelta: DayTimeIntervalType(),
    time: TimeType(),
    VariantVal: VariantType(),
}


class NoCommonTypeError(ValueError):
    """Two values have no common type.

    Args:
        path: the field of the column that has them.
        first: the type of values so far.
        second: the type of another value.
    """

    def __init__(self, first: DataType, second: DataType, path: str = "") -> None:
        self.first = first.simpleString()
        self.second = second.simpleString()
        self.path = path
        super().__init__(self.first, self.second)


def inferred_type(values: Iterable[object]) -> DataType:
    """Return the type that all values have, as the table above says.

    Raises:
        NoCommonTypeError: two values of Python have no common type.
    """
    found: DataType = NullType()
    is_text = True
    for value in values:
        if value is not None:
            is_text = is_text and isinstance(value, str)
            found = _common(found, _type_of(of_python(value)), is_text=is_text)
    return _finished(found)


def _type_of(value: Any) -> DataType:
    """Return the type of one value; NullType where nothing is known, as of the elements of an empty list."""
    if isinstance(value, TextCell):
        return _type_of_cell(value)
    value = as_mapping(value)
    if isinstance(value, Mapping):
        return StructType([StructField(str(name), _type_of(of_python(each))) for name, each in value.items()])
    if isinstance(value, list | tuple):
        element: DataType = NullType()
        for each in value:
            element = _common(element, _type_of(of_python(each)), is_text=False)
        return ArrayType(element)
    if isinstance(value, int) and not isinstance(value, bool):
        return LongType() if -(2**63) <= value < 2**63 else _decimal_of(Decimal(value))
    if isinstance(value, Decimal):
        return _decimal_of(value)
    found = next((_KINDS[kind] for kind in type(value).__mro__ if kind in _KINDS), None)
    return NullType() if value is None else found or StringType()


def _decimal_of(value: Decimal) -> DecimalType:
    _, digits, exponent = value.as_tuple()
    scale = max(-exponent, 0) if isinstance(exponent, int) else 0
    whole = max(len(digits) + exponent, 0) if isinstance(exponent, int) else 0
    return DecimalType(min(max(whole + scale, 1), _MOST_DIGITS), min(scale, _MOST_DIGITS))


def _type_of_cell(cell: TextCell) -> DataType:
    if _WHOLE.fullmatch(cell) and -(2**63) <= int(cell) < 2**63:
        return LongType()
    for pattern, data_type in _CELLS:
        if pattern.fullmatch(cell) and _fits(cell, data_type):
            return data_type
    is_nested = cell.startswith(("[", "{")) and isinstance(parsed := _parsed(cell), list | dict)
    return _type_of(parsed) if is_nested else StringType()


def _fits(cell: TextCell, data_type: DataType) -> bool:
    try:
        return typed_value(cell, data_type) is not None
    except MisfitError:
        return False


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _common(first: DataType, second: DataType, *, is_text: bool) -> DataType:
    """Return the type of values of two types; a text holds the cells of any."""
    match first, second:
        case NullType(), _:
            return second
        case _, NullType():
            return first
        case StructType(), StructType():
            return _common_struct(first, second, is_text=is_text)
        case ArrayType(), ArrayType():
            return ArrayType(_common(first.elementType, second.elementType, is_text=is_text))
    found = first if first == second else _common_leaf(first, second)
    if found is None and is_text:
        return StringType()
    if found is None:
        raise NoCommonTypeError(first, second)
    return found


def _common_leaf(first: DataType, second: DataType) -> DataType | None:
    """Return the wider type of two different ones; None if there is none."""
    kinds = {type(first), type(second)}
    if kinds == {LongType, DoubleType}:
        return DoubleType()
    if kinds == {DateType, TimestampType}:
        return TimestampType()
    if kinds <= {LongType, DecimalType}:
        digits = [(each.precision - each.scale, each.scale) for each in map(_as_decimal, (first, second))]
        whole, scale = (max(each[place] for each in digits) for place in (0, 1))
        return DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None
    return None


def _as_decimal(data_type: DataType) -> DecimalType:
    """Return the decimal type that holds the values of a BIGINT, or the decimal type itself."""
    return data_type if isinstance(data_type, DecimalType) else DecimalType(19, 0)


def _common_struct(first: StructType, second: StructType, *, is_text: bool) -> StructType:
    fields = {field.name: field.dataType for field in first.fields}
    for field in second.fields:
        known = fields.get(field.name, NullType())
        try:
            fields[field.name] = _common(known, field.dataType, is_text=is_text)
        except NoCommonTypeError as error:
            raise NoCommonTypeError(known, field.dataType, f".{field.name}{error.path}") from None
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


def _finished(found: DataType) -> DataType:
    """Return the type with STRING where nothing but NULL was found."""
    if isinstance(found, StructType):
        return StructType([StructField(field.name, _finished(field.dataType)) for field in found.fields])
    if isinstance(found, ArrayType):
        return ArrayType(_finished(found.elementType))
    return StringType() if isinstance(found, NullType) else found
