"""Exact conversion of file values to the types of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from framework.sources.cloud_files.columns.fields import distinct_names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from framework.sources.cloud_files.settings.options import CloudFilesOptions

_FORMATS = ("dateformat", "timestampformat", "timestampntzformat", "locale", "timezone", "nullvalue")
"""Reader options for the format of values."""
_TIMES = (DateType, TimestampType, TimestampNTZType)


def fitted(value: Column, own: DataType, known: DataType, *, any_case: bool = False) -> Column:
    """Convert a value to the known type; parts that can't be converted without loss are NULL.

    Args:
        value: a column of the files, with the names of `distinct_fields`.
        own: its type, with the names in the files.
        known: the type in the stream.
        any_case: whether a field also takes values from fields whose names differ only in case.
    """
    if own == known:
        return value
    if isinstance(own, StructType) and isinstance(known, StructType):
        parts = []
        for each in known.fields:
            same = [
                fitted(value[place], field.dataType, each.dataType, any_case=any_case)
                for place, field in _meant(own, each.name, any_case=any_case)
            ]
            parts.append((F.coalesce(*same) if same else F.lit(None).cast(each.dataType)).alias(each.name))
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(own, ArrayType) and isinstance(known, ArrayType):
        return F.transform(value, lambda item: fitted(item, own.elementType, known.elementType, any_case=any_case))
    if isinstance(own, MapType) and isinstance(known, MapType) and own.keyType == known.keyType:
        return F.transform_values(
            value, lambda _, item: fitted(item, own.valueType, known.valueType, any_case=any_case)
        )
    if not _is_convertible(own, known):
        return F.lit(None).cast(known)
    converted = value.try_cast(known)
    return F.when(converted.try_cast(own).eqNullSafe(value), converted)


def _meant(own: StructType, name: str, *, any_case: bool) -> list[tuple[str, StructField]]:
    """Return the fields that supply values for a known field, an equal name first, with their distinct names."""
    places = list(zip(distinct_names(own.fieldNames()), own.fields, strict=True))
    exact = [pair for pair in places if pair[1].name == name]
    others = [pair for pair in places if pair[1].name != name and pair[1].name.lower() == name.lower()]
    return [*exact, *others] if any_case else exact


def is_kept(value: Column, own: DataType, known: DataType, *, any_case: bool = False) -> Column:
    """Return whether `fitted` keeps the whole value."""
    kept = _is_kept(value, own, known, any_case=any_case)
    return F.coalesce(kept, F.lit(True))  # noqa: FBT003 - a value, not a choice


def _is_kept(value: Column, own: DataType, known: DataType, *, any_case: bool) -> Column:
    """As `is_kept`; NULL for some values that are NULL."""
    if isinstance(own, StructType) and isinstance(known, StructType):
        kept = F.lit(True)  # noqa: FBT003 - as above
        places = list(zip(distinct_names(own.fieldNames()), own.fields, strict=True))
        meant = {each.name: _meant(own, each.name, any_case=any_case) for each in known.fields}
        for place, field in places:
            name = next((name for name, pairs in meant.items() if place in {other for other, _ in pairs}), None)
            if name is None:
                kept = kept & value[place].isNull()
                continue
            kept = kept & is_kept(value[place], field.dataType, _field_type(known, name), any_case=any_case)
            first = [value[other].isNull() for other, _ in meant[name][: [p for p, _ in meant[name]].index(place)]]
            for is_missing in first:
                kept = kept & (is_missing | value[place].isNull())
        return kept
    if isinstance(own, ArrayType) and isinstance(known, ArrayType):
        return F.forall(value, lambda item: is_kept(item, own.elementType, known.elementType, any_case=any_case))
    if isinstance(own, MapType) and isinstance(known, MapType) and own.keyType == known.keyType:
        return F.forall(
            F.map_values(value), lambda item: is_kept(item, own.valueType, known.valueType, any_case=any_case)
        )
    return value.isNull() | fitted(value, own, known).isNotNull()


def _field_type(known: StructType, name: str) -> DataType:
    return next(each.dataType for each in known.fields if each.name == name)


def _is_convertible(own: DataType, known: DataType) -> bool:
    """Return whether Spark has a cast in both directions."""
    if isinstance(own, NumericType) and isinstance(known, NumericType):
        return True
    if isinstance(own, _TIMES) and isinstance(known, _TIMES):
        return True
    has_text = isinstance(own, StringType) or isinstance(known, StringType)
    return has_text and all(isinstance(kind, AtomicType) and not isinstance(kind, BinaryType) for kind in (own, known))


def is_parsed(known: DataType) -> bool:
    """Return whether `parsed_text` supports a type."""
    return isinstance(known, (NumericType, BooleanType, *_TIMES))


def parsed_text(text: Column, known: DataType, options: CloudFilesOptions) -> Column:
    """Parse text from an XML file as Spark does; NULL if it is not a value of the type."""
    if isinstance(known, NumericType) and not isinstance(known, DecimalType):
        return text.try_cast(known)
    escaped = F.replace(F.replace(text, F.lit("&"), F.lit("&amp;")), F.lit("<"), F.lit("&lt;"))
    record = F.concat(F.lit("<r><v>"), escaped, F.lit("</v></r>"))
    formats = {name: value for name, value in options.reader if name in _FORMATS}
    return F.from_xml(record, f"v {known.simpleString()}", formats)["v"]


def is_kept_text(text: Column, known: DataType, options: CloudFilesOptions) -> Column:
    """Return whether `parsed_text` keeps the value; an empty text has no value."""
    return text.isNull() | (F.trim(text) == F.lit("")) | parsed_text(text, known, options).isNotNull()
