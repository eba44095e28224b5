"""Common types of two types: for a column of two flows, and for the sequences of two flows."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_INTEGRAL_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
_MAX_DIGITS = 38


def common_type(left: DataType, right: DataType) -> DataType | None:
    """Return the narrowest type that holds every value of both types; None if there is none.

    Numbers widen, and dates become timestamps. The fields of structs match by name, and a field of
    only one side is kept. The common type of a type and the type of NULL is the former.
    """
    if left == right or isinstance(right, NullType):
        return left
    if isinstance(left, NullType):
        return right
    if isinstance(left, StructType) and isinstance(right, StructType):
        return merge_schemas(left, right)
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        element = common_type(left.elementType, right.elementType)
        return None if element is None else ArrayType(element, left.containsNull or right.containsNull)
    if isinstance(left, MapType) and isinstance(right, MapType):
        return _common_map(left, right)
    return _common_number(left, right) or _common_time(left, right) or _common_text(left, right)


def merge_schemas(left: StructType, right: StructType) -> StructType | None:
    """Return the fields of `left`, widened, then those of `right` only; None if a field has no common type."""
    fields = []
    theirs = {field.name.lower(): field for field in right.fields}
    for field in left.fields:
        other = theirs.pop(field.name.lower(), None)
        data_type = field.dataType if other is None else common_type(field.dataType, other.dataType)
        if data_type is None:
            return None
        nullable = field.nullable or other is None or other.nullable
        fields.append(StructField(field.name, data_type, nullable, field.metadata))
    return StructType(
        [*fields, *(StructField(f.name, f.dataType, nullable=True, metadata=f.metadata) for f in theirs.values())]
    )


def common_sequence(left: DataType, right: DataType) -> DataType | None:
    """Return the `common_type` of two sequences; structs need the same number of fields, which match by position."""
    if isinstance(left, StructType) and isinstance(right, StructType):
        if len(left) != len(right):
            return None
        pairs = [common_sequence(a.dataType, b.dataType) for a, b in zip(left.fields, right.fields, strict=True)]
        if any(pair is None for pair in pairs):
            return None
        return StructType([StructField(f.name, t) for f, t in zip(left.fields, pairs, strict=True) if t is not None])
    return common_type(left, right)


def stored_sequence(data_type: DataType) -> DataType:
    """Return the type in which a sequence is stored: the widest of its kind, so that it need not be widened later.

    The fields of a struct are named by their position, because their order depends on nothing else.
    """
    if isinstance(data_type, IntegralType):
        return LongType()
    if isinstance(data_type, FloatType):
        return DoubleType()
    if isinstance(data_type, StructType):
        parts = enumerate(data_type.fields, start=1)
        return StructType([StructField(f"part{index}", stored_sequence(field.dataType)) for index, field in parts])
    return plain_type(data_type)


def plain_type(data_type: DataType) -> DataType:
    """Return the type as a Delta table stores it: everything nullable, strings without a length."""
    if isinstance(data_type, StructType):
        fields = [_plain_field(field) for field in data_type.fields]
        return StructType(fields)
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
    """Return the field without Spark's internal metadata for a query, with which Spark hides a file's `_metadata`."""
    kept = {key: value for key, value in (field.metadata or {}).items() if not key.startswith("__")}
    return StructField(field.name, plain_type(field.dataType), nullable=True, metadata=kept)


def _common_map(left: MapType, right: MapType) -> DataType | None:
    key = common_type(left.keyType, right.keyType)
    value = common_type(left.valueType, right.valueType)
    if key is None or value is None:
        return None
    return MapType(key, value, left.valueContainsNull or right.valueContainsNull)


def _common_number(left: DataType, right: DataType) -> DataType | None:
    if isinstance(left, IntegralType) and isinstance(right, IntegralType):
        return max(left, right, key=lambda side: _INTEGRAL_DIGITS[type(side)])
    if not (isinstance(left, NumericType) and isinstance(right, NumericType)):
        return None
    if isinstance(left, FractionalType) and not isinstance(left, DecimalType):
        return DoubleType()
    if isinstance(right, FractionalType) and not isinstance(right, DecimalType):
        return DoubleType()
    return _common_decimal(_as_decimal(left), _as_decimal(right))


def _as_decimal(data_type: DataType) -> DecimalType:
    if isinstance(data_type, DecimalType):
        return data_type
    return DecimalType(_INTEGRAL_DIGITS[type(data_type)], 0)


def _common_decimal(left: DecimalType, right: DecimalType) -> DataType | None:
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return DecimalType(digits, scale) if digits <= _MAX_DIGITS else None


def _common_time(left: DataType, right: DataType) -> DataType | None:
    if isinstance(left, DateType) and isinstance(right, TimestampType | TimestampNTZType):
        return right
    if isinstance(right, DateType) and isinstance(left, TimestampType | TimestampNTZType):
        return left
    return None


def _common_text(left: DataType, right: DataType) -> DataType | None:
    if isinstance(left, StringType) and isinstance(right, StringType):
        return StringType()
    return None
