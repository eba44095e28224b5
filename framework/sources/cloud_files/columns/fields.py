"""Comparison of file columns with known columns: new fields, case variants, and common types.

Fields inside of structs, arrays and maps are named as in hints: `at.x`, `items.element.id`, `prices.value`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from framework.schema.change import schema_change
from framework.schema.data_types import common_type, merge_schemas
from framework.schema.lattice import FILES


def plain_type(kind: DataType, *, keeps_void: bool = False) -> DataType:
    """Return a type that a table can store: all values are nullable, and `void` (always null) becomes a string.

    Args:
        kind: the type.
        keeps_void: whether `void` stays.
    """
    if isinstance(kind, NullType):
        return kind if keeps_void else StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(plain_type(kind.elementType, keeps_void=keeps_void))
    if isinstance(kind, MapType):
        return MapType(
            plain_type(kind.keyType, keeps_void=keeps_void), plain_type(kind.valueType, keeps_void=keeps_void)
        )
    if isinstance(kind, StructType):
        return StructType(
            [StructField(each.name, plain_type(each.dataType, keeps_void=keeps_void)) for each in kind.fields]
        )
    return kind


def merged(known: StructType, found: StructType) -> StructType:
    """Return the known columns and fields, then the new ones of `found`; known types stay."""
    columns = {each.name: each for each in known.fields}
    lower = {name.lower() for name in columns}
    for each in found.fields:
        before = columns.get(each.name)
        if before is not None:
            columns[each.name] = StructField(each.name, _merged_types(before.dataType, each.dataType))
        elif each.name.lower() not in lower:
            columns[each.name] = each
            lower.add(each.name.lower())
    return StructType(list(columns.values()))


def _merged_types(known: DataType, found: DataType) -> DataType:
    if isinstance(known, StructType) and isinstance(found, StructType):
        return merged(known, found)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_merged_types(known.elementType, found.elementType))
    if isinstance(known, MapType) and isinstance(found, MapType):
        return MapType(known.keyType, _merged_types(known.valueType, found.valueType))
    return known


def new_fields(known: StructType, found: StructType) -> list[str]:
    """Return the full names of columns and fields that only `found` has; names that differ in case are not new."""
    return [each.name for each in schema_change(known.jsonValue(), found.jsonValue()).added]


def case_variants(known: StructType, found: StructType, prefix: str = "") -> list[str]:
    """Return the file fields whose names differ only in case from a known field or from each other."""
    names = {each.name.lower(): each for each in reversed([*known.fields, *found.fields])}
    variants: list[str] = []
    for each in found.fields:
        first = names[each.name.lower()]
        if first.name != each.name:
            variants.append(f"{prefix}{each.name}")
        for inner, more, below in _inside(first.dataType, each.dataType, f"{prefix}{each.name}."):
            variants.extend(case_variants(inner, more, below))
    return variants


def without_variants(columns: StructType, spellings: Collection[str] = ()) -> StructType:
    """Merge columns and fields whose names differ only in case; the types hold the values of all variants.

    Args:
        columns: the columns of files.
        spellings: the preferred spellings; without one, the first spelling is kept.
    """
    fields: dict[str, StructField] = {}
    for each in columns.fields:
        kind, before = _type_without_variants(each.dataType), fields.get(each.name.lower())
        if before is None:
            fields[each.name.lower()] = StructField(each.name, kind)
        else:
            name = each.name if each.name in spellings else before.name
            fields[each.name.lower()] = StructField(name, _type_without_variants(widest(before.dataType, kind)))
    return StructType(list(fields.values()))


def _type_without_variants(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return without_variants(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_type_without_variants(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _type_without_variants(kind.valueType))
    return kind


def with_variants(known: DataType, found: DataType) -> DataType:
    """Return the known type with all fields of files, including case variants."""
    if isinstance(known, StructType) and isinstance(found, StructType):
        theirs = {each.name: each for each in found.fields}
        both = [
            StructField(each.name, with_variants(each.dataType, theirs.pop(each.name, each).dataType))
            for each in known.fields
        ]
        return StructType([*both, *theirs.values()])
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(with_variants(known.elementType, found.elementType))
    if isinstance(known, MapType) and isinstance(found, MapType):
        return MapType(known.keyType, with_variants(known.valueType, found.valueType))
    return known


def with_maps(known: DataType, found: DataType) -> DataType:
    """Return the file type with maps where the stream has maps; inference reads every object as a struct."""
    if isinstance(known, MapType) and isinstance(found, StructType):
        values = (with_maps(known.valueType, each.dataType) for each in found.fields)
        return MapType(known.keyType, reduce(with_variants, values, known.valueType))
    if isinstance(known, StructType) and isinstance(found, StructType):
        types = {each.name: each.dataType for each in known.fields}
        return StructType(
            [StructField(each.name, with_maps(types.get(each.name, each.dataType), each.dataType)) for each in found]
        )
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(with_maps(known.elementType, found.elementType))
    return found


def distinct_names(names: Sequence[str]) -> list[str]:
    """Make names distinct in more than case, by a number where necessary."""
    taken: set[str] = set()
    found = []
    for number, name in enumerate(names):
        distinct = name if name.lower() not in taken else f"{name}\u0001{number}"
        taken.add(distinct.lower())
        found.append(distinct)
    return found


def distinct_fields(kind: DataType) -> DataType:
    """Return a type with the same fields by position and names that differ in more than case, for a cast."""
    if isinstance(kind, StructType):
        names = distinct_names(kind.fieldNames())
        types = (distinct_fields(each.dataType) for each in kind.fields)
        return StructType([StructField(name, each) for name, each in zip(names, types, strict=True)])
    if isinstance(kind, ArrayType):
        return ArrayType(distinct_fields(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, distinct_fields(kind.valueType))
    return kind


def _inside(known: DataType, found: DataType, prefix: str) -> Iterator[tuple[StructType, StructType, str]]:
    """Yield the pairs of structs at the same path in two types, and the prefix of their fields."""
    if isinstance(found, StructType) and isinstance(known, StructType):
        yield known, found, prefix
    elif isinstance(found, ArrayType) and isinstance(known, ArrayType):
        yield from _inside(known.elementType, found.elementType, f"{prefix}element.")
    elif isinstance(found, MapType) and isinstance(known, MapType):
        yield from _inside(known.valueType, found.valueType, f"{prefix}value.")


def widest(first: DataType, second: DataType) -> DataType:
    """Return the type that holds all values of two types without loss; a string if there is no such type."""
    kind = common_type(first, second, FILES)
    assert kind is not None  # a string has all values
    return kind


def widest_columns(first: StructType, second: StructType) -> StructType:
    """Return the columns of both, with types that hold all values; names are compared case-sensitively."""
    columns = merge_schemas(first, second, FILES)
    assert columns is not None  # as above
    return columns
