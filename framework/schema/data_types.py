"""The lattice for Spark's types, including nested types, and the types that a table stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from framework.schema.lattice import TABLE, Fields, Widening

_Path = tuple[str, ...]
_MADE: dict[str, DataType] = {"double": DoubleType(), "string": StringType()}
"""The types, besides decimals, that can result as the common type of two different types."""


def common_type(first: DataType, second: DataType, allowed: Widening) -> DataType | None:
    """Return the narrowest type that can hold all values of two types; None if there is none.

    Args:
        first: the first type; the common type has its field names and metadata.
        second: the second type.
        allowed: the part of the lattice.
    """
    return _common(first, second, allowed, (), ())


def merge_schemas(first: StructType, second: StructType, allowed: Widening) -> StructType | None:
    """Return the `common_type` of two schemas; None if a column has no common type."""
    merged = common_type(first, second, allowed)
    assert merged is None or isinstance(merged, StructType)
    return merged


def widen_known(known: StructType, found: StructType, allowed: Widening, given: Collection[_Path]) -> StructType:
    """Return the known columns, widened where values of `found` need it; `given` are paths of types that stay."""
    wider = _common(known, found, allowed, (), given)
    assert isinstance(wider, StructType)
    return wider


def _common(
    first: DataType, second: DataType, allowed: Widening, path: _Path, given: Collection[_Path]
) -> DataType | None:
    if path in given:
        return first
    if isinstance(first, StructType) and isinstance(second, StructType):
        return _common_struct(first, second, allowed, path, given)
    if isinstance(first, ArrayType) and isinstance(second, ArrayType):
        element = _common(first.elementType, second.elementType, allowed, (*path, "element"), given)
        return None if element is None else ArrayType(element)
    if isinstance(first, MapType) and isinstance(second, MapType):
        is_kept = allowed.fields is Fields.KNOWN
        key = first.keyType if is_kept else _common(first.keyType, second.keyType, allowed, (*path, "key"), given)
        value = _common(first.valueType, second.valueType, allowed, (*path, "value"), given)
        return None if key is None or value is None else MapType(key, value)
    return _common_leaf(first, second, allowed)


def _common_leaf(first: DataType, second: DataType, allowed: Widening) -> DataType | None:
    known, found = first.simpleString(), second.simpleString()
    name = allowed.wider(known, found)
    if name is None:
        return first if allowed.fields is Fields.KNOWN else None
    if name in (known, found):
        return first if name == known else second
    return _MADE.get(name) or _decimal(name)


def _decimal(name: str) -> DecimalType:
    precision, scale = map(int, re.findall(r"\d+", name))
    return DecimalType(precision, scale)


def _common_struct(
    first: StructType, second: StructType, allowed: Widening, path: _Path, given: Collection[_Path]
) -> StructType | None:
    fold: Callable[[str], str] = str if allowed.fields is Fields.CASED else str.lower
    theirs = {fold(field.name): field for field in second.fields}
    if allowed.fields is Fields.SAME and [fold(field.name) for field in first.fields] != [*theirs]:
        return None
    fields = []
    for field in first.fields:
        other = theirs.pop(fold(field.name), None)
        if other is None:
            fields.append(field)
            continue
        kind = _common(field.dataType, other.dataType, allowed, (*path, field.name.lower()), given)
        if kind is None:
            return None
        fields.append(StructField(field.name, kind, nullable=True, metadata=field.metadata))
    if allowed.fields is Fields.KNOWN:
        return StructType(fields)
    return StructType([*fields, *(StructField(f.name, f.dataType, metadata=f.metadata) for f in theirs.values())])


def first_conflict(first: StructType, second: StructType, allowed: Widening) -> tuple[str, DataType, DataType] | None:
    """Return the path and both types of the first part without a common type; None if the schemas fit."""
    for path, one, other in _pairs(first, second, ()):
        if common_type(one, other, allowed) is None:
            return ".".join(path), one, other
    return None


def _pairs(first: DataType, second: DataType, path: _Path) -> Iterator[tuple[_Path, DataType, DataType]]:
    """Yield the pairs of leaf types (no structs, arrays, maps) in the same place, with the path in the second type."""
    if isinstance(first, StructType) and isinstance(second, StructType):
        known = {field.name.lower(): field.dataType for field in first.fields}
        for field in second.fields:
            if field.name.lower() in known:
                yield from _pairs(known[field.name.lower()], field.dataType, (*path, field.name))
    elif isinstance(first, ArrayType) and isinstance(second, ArrayType):
        yield from _pairs(first.elementType, second.elementType, (*path, "element"))
    elif isinstance(first, MapType) and isinstance(second, MapType):
        yield from _pairs(first.keyType, second.keyType, (*path, "key"))
        yield from _pairs(first.valueType, second.valueType, (*path, "value"))
    else:
        yield path, first, second


def known_part(stored: DataType, known: DataType) -> DataType:
    """Return the part of a stored type that is known: without unknown fields, and with known types that are narrower.

    Args:
        stored: the type of a column, or the columns of a table.
        known: the type as it is known; known fields that are not stored are ignored.
    """
    if isinstance(stored, StructType) and isinstance(known, StructType):
        fields = {field.name.lower(): field.dataType for field in known.fields}
        kept = [field for field in stored.fields if field.name.lower() in fields]
        parts = ((field, known_part(field.dataType, fields[field.name.lower()])) for field in kept)
        return StructType([StructField(f.name, kind, nullable=f.nullable, metadata=f.metadata) for f, kind in parts])
    if isinstance(stored, ArrayType) and isinstance(known, ArrayType):
        return ArrayType(known_part(stored.elementType, known.elementType), containsNull=stored.containsNull)
    if isinstance(stored, MapType) and isinstance(known, MapType):
        key, value = known_part(stored.keyType, known.keyType), known_part(stored.valueType, known.valueType)
        return MapType(key, value, valueContainsNull=stored.valueContainsNull)
    return known if TABLE.stands_for(stored.simpleString(), known.simpleString()) else stored


def leaf_types(data_type: DataType) -> Iterator[DataType]:
    """Yield the types in a type that are no struct, array or map; a type without parts yields itself."""
    if isinstance(data_type, StructType):
        parts = [field.dataType for field in data_type.fields]
    elif isinstance(data_type, ArrayType):
        parts = [data_type.elementType]
    elif isinstance(data_type, MapType):
        parts = [data_type.keyType, data_type.valueType]
    else:
        yield data_type
        return
    for part in parts:
        yield from leaf_types(part)


def plain_type(data_type: DataType) -> DataType:
    """Return the type as a Delta table stores it: with every part nullable."""
    if isinstance(data_type, StructType):
        return StructType([_plain_field(field) for field in data_type.fields])
    if isinstance(data_type, ArrayType):
        return ArrayType(plain_type(data_type.elementType), containsNull=True)
    if isinstance(data_type, MapType):
        return MapType(plain_type(data_type.keyType), plain_type(data_type.valueType), valueContainsNull=True)
    return data_type


def plain_schema(schema: StructType) -> StructType:
    """Return the schema as a Delta table stores it."""
    plain = plain_type(schema)
    assert isinstance(plain, StructType)
    return plain


def _plain_field(field: StructField) -> StructField:
    """Return the field without Spark's internal query metadata, which would hide a file's `_metadata` column."""
    kept = {key: value for key, value in (field.metadata or {}).items() if not key.startswith("__")}
    return StructField(field.name, plain_type(field.dataType), nullable=True, metadata=kept)
