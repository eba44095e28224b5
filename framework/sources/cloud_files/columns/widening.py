"""Wider types of known columns, for the mode `addNewColumnsWithTypeWidening`."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampNTZType

from framework.foundation.wider_types import wider_type
from framework.sources.cloud_files.settings.given_hints import parse_hints
from framework.sources.cloud_files.settings.options import SELF_TYPED, CloudFilesOptions

_Path = tuple[str, ...]


def widened(known: StructType, found: Iterable[StructType], options: CloudFilesOptions) -> StructType:
    """Return the known columns with the types that have the values of files too; what no wider type has is rescued.

    The type of a hint does not change, nor do names. Only files with types of their own widen dates.

    Args:
        known: the columns.
        found: the columns of files, of each group apart: together they may have no type.
        options: the hints and the format.
    """
    hinted = frozenset(hint.place for hint in parse_hints(options.hints))
    for columns in found:
        known = _columns(known, columns, (), hinted, times=options.format in SELF_TYPED)
    return known


def wider_names(before: StructType, after: StructType) -> list[str]:
    """Return the columns whose types differ, with both types, as texts for users."""
    return [
        f"{new.name} {new.dataType.simpleString()} (was {old.dataType.simpleString()})"
        for old, new in zip(before.fields, after.fields, strict=True)
        if old.dataType != new.dataType
    ]


def _columns(known: StructType, found: StructType, path: _Path, hinted: frozenset[_Path], *, times: bool) -> StructType:
    theirs = {each.name.lower(): each.dataType for each in found.fields}
    fields = []
    for each in known.fields:
        name = each.name.lower()
        kind = _type(each.dataType, theirs.get(name, each.dataType), (*path, name), hinted, times=times)
        fields.append(StructField(each.name, kind, each.nullable, each.metadata))
    return StructType(fields)


def _type(known: DataType, found: DataType, path: _Path, hinted: frozenset[_Path], *, times: bool) -> DataType:
    if path in hinted:
        return known
    if isinstance(known, StructType) and isinstance(found, StructType):
        return _columns(known, found, path, hinted, times=times)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        inner = _type(known.elementType, found.elementType, (*path, "element"), hinted, times=times)
        return ArrayType(inner, known.containsNull)
    if isinstance(known, MapType) and isinstance(found, MapType):
        inner = _type(known.valueType, found.valueType, (*path, "value"), hinted, times=times)
        return MapType(known.keyType, inner, known.valueContainsNull)
    wider = wider_type(known, found)
    if wider is None or (isinstance(wider, TimestampNTZType) and not times):
        return known
    return wider
