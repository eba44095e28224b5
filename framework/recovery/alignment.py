"""Pairs of the columns of two tables, with the type in which the values of both are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from framework.cdc.model.columns import find_field, match_field
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.recovery.comparison import ColumnFinding

_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_WHOLE_NUMBERS = tuple(_DIGITS)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPair:
    """A column of both tables.

    Args:
        name: as the first table spells it.
        first: its place in the first table; `second` in the second.
        data_type: the type in which the values are compared.
    """

    name: str
    first: int
    second: int
    data_type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The columns of two tables: those of the key, the other common ones, and those that can't be compared."""

    keys: tuple[ColumnPair, ...]
    values: tuple[ColumnPair, ...]
    findings: tuple[ColumnFinding, ...]


def align(
    first: StructType, second: StructType, *, names: tuple[str, str], keys: Sequence[str], columns: Sequence[str]
) -> Alignment:
    """Pair the columns of two tables by name, without regard to case.

    Args:
        first: columns of the first table.
        second: columns of the second table.
        names: names of both tables, for error texts.
        keys: names of the key columns; () to compare whole rows.
        columns: names of the other columns to compare; () for all.

    Raises:
        UserError: RECONCILE_COLUMN_MISSING, RECONCILE_KEY_TYPES_DIFFER, RECONCILE_NOTHING_IN_COMMON.
    """
    for name in (*keys, *columns):
        for table, schema in zip(names, (first, second), strict=True):
            if find_field(schema, name) is None:
                hint = nearest_hint(name, schema.fieldNames())
                raise UserError("RECONCILE_COLUMN_MISSING", column=name, table=table, hint=hint)
    key_names = {name.lower() for name in keys}
    wanted = {name.lower() for name in columns} | key_names
    pairs, findings = _pairs(first, second)
    key_pairs = tuple(_key(name, pairs, findings) for name in keys)
    values = tuple(
        pair for pair in pairs if pair.name.lower() not in key_names and (not columns or pair.name.lower() in wanted)
    )
    if not key_pairs and not values:
        raise UserError("RECONCILE_NOTHING_IN_COMMON", first=names[0], second=names[1])
    shown = tuple(finding for finding in findings if not columns or finding.name.lower() in wanted)
    return Alignment(keys=key_pairs, values=values, findings=shown)


def _pairs(first: StructType, second: StructType) -> tuple[list[ColumnPair], list[ColumnFinding]]:
    pairs, findings, used = [], [], set()
    for place, field in enumerate(first.fields):
        other = match_field(second, field.name)
        if other is None:
            findings.append(ColumnFinding(name=field.name, first_type=_text(field), second_type=None))
            continue
        there = second.fields.index(other)
        used.add(there)
        data_type = common_type(field.dataType, other.dataType)
        if data_type is None:
            findings.append(ColumnFinding(name=field.name, first_type=_text(field), second_type=_text(other)))
        else:
            pairs.append(ColumnPair(name=field.name, first=place, second=there, data_type=data_type))
    findings += [
        ColumnFinding(name=field.name, first_type=None, second_type=_text(field))
        for place, field in enumerate(second.fields)
        if place not in used
    ]
    return pairs, findings


def _key(name: str, pairs: Sequence[ColumnPair], findings: Sequence[ColumnFinding]) -> ColumnPair:
    found = next((pair for pair in pairs if pair.name.lower() == name.lower()), None)
    if found is None:
        finding = next(finding for finding in findings if finding.name.lower() == name.lower())
        raise UserError(
            "RECONCILE_KEY_TYPES_DIFFER", column=name, first_type=finding.first_type, second_type=finding.second_type
        )
    return found


def common_type(first: DataType, second: DataType) -> DataType | None:
    """Return the type that holds every value of both types exactly; None if there is none.

    Examples:
        >>> common_type(IntegerType(), DecimalType(4, 2)).simpleString()
        'decimal(12,2)'
        >>> common_type(StringType(), IntegerType()) is None
        True
    """
    if isinstance(first, StringType | CharType | VarcharType) and isinstance(
        second, StringType | CharType | VarcharType
    ):
        return StringType()  # compared by bytes, whatever the collation is
    match first, second:
        case StructType(), StructType():
            return _common_struct(first, second)
        case ArrayType(), ArrayType():
            element = common_type(first.elementType, second.elementType)
            return None if element is None else ArrayType(element)
        case MapType(), MapType():
            key, value = common_type(first.keyType, second.keyType), common_type(first.valueType, second.valueType)
            return None if key is None or value is None else MapType(key, value)
    return first if first == second else _common_number(first, second)


def _common_struct(first: StructType, second: StructType) -> StructType | None:
    if [field.name.lower() for field in first.fields] != [field.name.lower() for field in second.fields]:
        return None
    types = [common_type(one.dataType, other.dataType) for one, other in zip(first.fields, second.fields, strict=True)]
    known = [kind for kind in types if kind is not None]
    if len(known) < len(types):
        return None
    return StructType([StructField(field.name, kind) for field, kind in zip(first.fields, known, strict=True)])


def _common_number(first: DataType, second: DataType) -> DataType | None:
    if {type(first), type(second)} == {FloatType, DoubleType}:
        return DoubleType()
    if isinstance(first, _WHOLE_NUMBERS) and isinstance(second, _WHOLE_NUMBERS):
        return max(first, second, key=lambda kind: _DIGITS[type(kind)])
    one, other = _as_decimal(first), _as_decimal(second)
    if one is None or other is None:
        return None
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    return DecimalType(digits, scale) if digits <= _MOST_DIGITS else None


def _as_decimal(data_type: DataType) -> DecimalType | None:
    if isinstance(data_type, DecimalType):
        return data_type
    digits = _DIGITS.get(type(data_type))
    return None if digits is None else DecimalType(digits, 0)


def _text(field: StructField) -> str:
    return field.dataType.simpleString()
