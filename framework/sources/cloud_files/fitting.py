"""Values of files whose columns have other types than those of the stream: converted if that is exact."""

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

    from framework.sources.cloud_files.options import CloudFilesOptions

_FORMATS = ("dateformat", "timestampformat", "timestampntzformat", "locale", "timezone", "nullvalue")
"""Options of a reader that say how a value is written."""
_TIMES = (DateType, TimestampType, TimestampNTZType)


def fitted(value: Column, own: DataType, known: DataType) -> Column:
    """The value in the known type; a part of it that can't be converted without loss is NULL.

    Args:
        value: a column of the files.
        own: its type.
        known: the type in the stream.
    """
    if own == known:
        return value
    if isinstance(own, StructType) and isinstance(known, StructType):
        mine = {each.name.lower(): each for each in own.fields}
        parts = []
        for each in known.fields:
            same = mine.get(each.name.lower())
            part = (
                F.lit(None).cast(each.dataType)
                if same is None
                else fitted(value[same.name], same.dataType, each.dataType)
            )
            parts.append(part.alias(each.name))
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(own, ArrayType) and isinstance(known, ArrayType):
        return F.transform(value, lambda item: fitted(item, own.elementType, known.elementType))
    if isinstance(own, MapType) and isinstance(known, MapType) and own.keyType == known.keyType:
        return F.transform_values(value, lambda _, item: fitted(item, own.valueType, known.valueType))
    if not _is_convertible(own, known):
        return F.lit(None).cast(known)
    converted = value.try_cast(known)
    return F.when(converted.try_cast(own).eqNullSafe(value), converted)


def is_kept(value: Column, own: DataType, known: DataType) -> Column:
    """Whether `fitted` has the whole value."""
    return F.coalesce(_is_kept(value, own, known), F.lit(True))  # noqa: FBT003 - a value, not a choice


def _is_kept(value: Column, own: DataType, known: DataType) -> Column:
    """As `is_kept`; NULL for some values that are NULL."""
    if isinstance(own, StructType) and isinstance(known, StructType):
        theirs = {each.name.lower(): each.dataType for each in known.fields}
        kept = F.lit(True)  # noqa: FBT003 - as above
        for each in own.fields:
            part, kind = value[each.name], theirs.get(each.name.lower())
            kept = kept & (part.isNull() if kind is None else is_kept(part, each.dataType, kind))
        return kept
    if isinstance(own, ArrayType) and isinstance(known, ArrayType):
        return F.forall(value, lambda item: is_kept(item, own.elementType, known.elementType))
    if isinstance(own, MapType) and isinstance(known, MapType) and own.keyType == known.keyType:
        return F.forall(F.map_values(value), lambda item: is_kept(item, own.valueType, known.valueType))
    return value.isNull() | fitted(value, own, known).isNotNull()


def _is_convertible(own: DataType, known: DataType) -> bool:
    """Whether Spark has a cast in both directions."""
    if isinstance(own, NumericType) and isinstance(known, NumericType):
        return True
    if isinstance(own, _TIMES) and isinstance(known, _TIMES):
        return True
    has_text = isinstance(own, StringType) or isinstance(known, StringType)
    return has_text and all(isinstance(kind, AtomicType) and not isinstance(kind, BinaryType) for kind in (own, known))


def is_parsed(known: DataType) -> bool:
    """Whether `parsed_text` has values of a type."""
    return isinstance(known, (NumericType, BooleanType, *_TIMES))


def parsed_text(text: Column, known: DataType, options: CloudFilesOptions) -> Column:
    """The value that the text of an XML file is, as Spark reads it; NULL if it is none of the type."""
    if isinstance(known, NumericType) and not isinstance(known, DecimalType):
        return text.try_cast(known)
    escaped = F.replace(F.replace(text, F.lit("&"), F.lit("&amp;")), F.lit("<"), F.lit("&lt;"))
    record = F.concat(F.lit("<r><v>"), escaped, F.lit("</v></r>"))
    formats = {name: value for name, value in options.reader if name in _FORMATS}
    return F.from_xml(record, f"v {known.simpleString()}", formats)["v"]


def is_kept_text(text: Column, known: DataType, options: CloudFilesOptions) -> Column:
    """Whether `parsed_text` has the value; an empty text is none."""
    return text.isNull() | (F.trim(text) == F.lit("")) | parsed_text(text, known, options).isNotNull()
