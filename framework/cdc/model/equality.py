"""Equality and hashes of values of every type that a Delta table stores.

Two values are equal if Spark's `<=>` is true: NaN equals NaN and 0.0 equals -0.0, at any depth. Maps are equal
if they have the same entries in any order, variants if they have the same parts of the same types in any order
of fields. Equal values have equal hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from framework.cdc.model.columns import column
from framework.engine.plans.expressions import variant_bytes

_UNORDERED = {"map", "variant", "interval", "geometry", "geography"}
_NOT_IN_DELTA = {"interval", "yearmonthinterval", "daytimeinterval", "time", "geometry", "geography"}


def is_orderable(data_type: DataType) -> bool:
    """Return whether Spark can order values of the type; it can't order maps and variants, at any depth."""
    return not any(part.typeName() in _UNORDERED for part in _parts(data_type))


def unstorable_part(data_type: DataType) -> DataType | None:
    """Return the first part of a type, possibly the whole, that Delta can't store; None if it can store all."""
    return next((part for part in _parts(data_type) if _is_unstorable(part)), None)


def _is_unstorable(part: DataType) -> bool:
    if isinstance(part, StringType):
        return not part.isUTF8BinaryCollation()
    if isinstance(part, ArrayType):
        return isinstance(part.elementType, NullType)
    if isinstance(part, MapType):
        return isinstance(part.keyType, NullType) or isinstance(part.valueType, NullType)
    return part.typeName() in _NOT_IN_DELTA or part == StructType([])


def _parts(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and the types within it, at every depth."""
    yield data_type
    inner: Sequence[DataType] = ()
    if isinstance(data_type, StructType):
        inner = [field.dataType for field in data_type.fields]
    elif isinstance(data_type, ArrayType):
        inner = [data_type.elementType]
    elif isinstance(data_type, MapType):
        inner = [data_type.keyType, data_type.valueType]
    for part in inner:
        yield from _parts(part)


def comparable(value: Column, data_type: DataType) -> Column:
    """Convert a value to a form that Spark can compare and order.

    Maps become sorted arrays of their entries, and variants the bytes of their canonical encoding. A value of
    a type that Spark can compare is returned unchanged.
    """
    if is_orderable(data_type):
        return value
    if isinstance(data_type, StructType):
        fields = [comparable(value.getField(f.name), f.dataType).alias(f.name) for f in data_type.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType):
        element_type = data_type.elementType
        return F.transform(value, lambda element: comparable(element, element_type))
    if isinstance(data_type, MapType):
        return F.sort_array(F.transform(F.map_entries(value), lambda entry: _comparable_entry(entry, data_type)))
    assert isinstance(data_type, VariantType), data_type
    return _canonical_variant(value)


def _comparable_entry(entry: Column, data_type: MapType) -> Column:
    key = comparable(entry.getField("key"), data_type.keyType)
    return F.struct(key.alias("key"), comparable(entry.getField("value"), data_type.valueType).alias("value"))


def _canonical_variant(value: Column) -> Column:
    """Return the bytes of a variant whose dictionary lists the names of fields in the order of the encoded fields.

    The dictionary of a variant depends on the order of fields in its source text, and the encoding depends on the
    dictionary. A nested variant is encoded again, so wrapping the variant in an array rebuilds both.
    """
    rebuilt = F.call_function("to_variant_object", F.array(value))
    parts = F.struct(*(variant_bytes(rebuilt, part).alias(part) for part in ("value", "metadata")))
    return F.when(value.isNotNull(), parts)


def fingerprint(fields: Sequence[StructField], *, of: str | None = None) -> Column:
    """Return a 64-bit hash of the values of `fields`, independent of the order of fields.

    Null fields do not count, so a row keeps its fingerprint when its table gains columns or fields of structs.
    Each value is hashed with the name of its field, so (null, `x`) and (`x`, null) have different fingerprints.
    """
    return _hash_fields([(column(field.name, of=of), field) for field in fields])


def _hash_fields(values: Sequence[tuple[Column, StructField]]) -> Column:
    parts = []
    for value, field in sorted(values, key=lambda pair: pair[1].name.lower()):
        parts.append(F.when(value.isNotNull(), F.lit(field.name.lower())))
        is_flat = not isinstance(field.dataType, StructType | ArrayType | MapType | VariantType)
        parts.append(value if is_flat else F.when(value.isNotNull(), _hash_value(value, field.dataType)))
    return F.xxhash64(F.lit(0), *parts)


def _hash_value(value: Column, data_type: DataType) -> Column:
    """Return a 64-bit hash of a value; a null has a hash too, so that its position in an array counts."""
    if isinstance(data_type, StructType):
        hashed = _hash_fields([(value.getField(field.name), field) for field in data_type.fields])
    elif isinstance(data_type, ArrayType):
        element_type = data_type.elementType
        hashed = F.xxhash64(F.transform(value, lambda element: _hash_value(element, element_type)))
    elif isinstance(data_type, MapType):
        hashed = F.xxhash64(F.sort_array(F.transform(F.map_entries(value), lambda e: _hash_entry(e, data_type))))
    else:
        hashed = F.xxhash64(comparable(value, data_type))
    return F.when(value.isNull(), F.lit(0).cast("bigint")).otherwise(hashed)


def _hash_entry(entry: Column, data_type: MapType) -> Column:
    key = _hash_value(entry.getField("key"), data_type.keyType)
    return F.xxhash64(key, _hash_value(entry.getField("value"), data_type.valueType))


def normal_key(value: Column, data_type: DataType) -> Column:
    """Normalize a key, so that equal keys have one representation: -0.0 becomes 0.0, at any depth.

    Spark groups both into one key with either sign. A value of another type is returned unchanged.
    """
    if not any(isinstance(part, FloatType | DoubleType) for part in _parts(data_type)):
        return value
    if isinstance(data_type, StructType):
        fields = [normal_key(value.getField(f.name), f.dataType).alias(f.name) for f in data_type.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType):
        element_type = data_type.elementType
        return F.transform(value, lambda element: normal_key(element, element_type))
    return F.when(value == F.lit(0), F.lit(0).cast(data_type)).otherwise(value)
