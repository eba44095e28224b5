"""Values as text in files of JSON lines and CSV, as Spark's readers read them with their default options."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

_SCALARS = (
    BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType, StringType,
    TimestampNTZType, TimestampType,
)  # fmt: skip


def is_plain_json(kind: DataType) -> bool:
    """Whether `json_text` writes values of a type."""
    if isinstance(kind, StructType):
        return all(is_plain_json(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return is_plain_json(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and is_plain_json(kind.valueType)
    return isinstance(kind, (*_SCALARS, BinaryType, VariantType))


def json_row(schema: StructType, row: Sequence[Any]) -> str:
    """Return a row as a JSON object, with null for NULL."""
    pairs = zip(schema.fields, row, strict=True)
    return "{" + ", ".join(f"{_quoted(field.name)}: {json_text(value, field.dataType)}" for field, value in pairs) + "}"


def json_text(value: Any, kind: DataType) -> str:
    """Return a value of a type as JSON."""
    if value is None:
        return "null"
    match kind:
        case StructType():
            text = json_row(kind, value)
        case ArrayType():
            text = "[" + ", ".join(json_text(each, kind.elementType) for each in value) + "]"
        case MapType():
            pairs = (f"{_quoted(key)}: {json_text(each, kind.valueType)}" for key, each in value.items())
            text = "{" + ", ".join(pairs) + "}"
        case VariantType():
            text = str(value.toJson())
        case _:
            text = _scalar(value)
    return text


def _scalar(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return _quoted(base64.b64encode(value).decode())
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return plain_text(value) if isinstance(value, Decimal) else _quoted(plain_text(value))


def is_plain_csv(kind: DataType) -> bool:
    """Whether `csv_line` writes values of a type."""
    return isinstance(kind, _SCALARS)


def csv_line(values: Sequence[Any], separator: str) -> str | None:
    r"""Return the line of a CSV file; None if a value needs more than quotes: it has a backslash or a line break.

    Examples:
        >>> csv_line((1, None, "", 'the "best", ever'), ",")
        '1,,"","the \\"best\\", ever"'
    """
    cells = []
    for value in values:
        text = "" if value is None else plain_text(value)
        if any(sign in text for sign in "\\\n\r"):
            return None
        needs_quotes = value is not None and (
            not text or text != text.strip() or any(s in text for s in (separator, '"', "#"))
        )
        cells.append('"' + text.replace('"', '\\"') + '"' if needs_quotes else text)
    return separator.join(cells) or '""'  # Spark skips blank lines, and reads "" as NULL


def plain_text(value: Any) -> str:
    """Return a value as Spark reads it from text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
