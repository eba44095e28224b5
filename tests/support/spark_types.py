"""Spark's types by their names, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import types as T
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType, VarcharType

_LEAVES: dict[str, DataType] = {
    "boolean": T.BooleanType(), "tinyint": T.ByteType(), "smallint": T.ShortType(), "int": T.IntegerType(),
    "bigint": T.LongType(), "float": T.FloatType(), "double": T.DoubleType(), "string": T.StringType(),
    "binary": T.BinaryType(), "date": T.DateType(), "timestamp": T.TimestampType(), "void": T.NullType(),
    "timestamp_ntz": T.TimestampNTZType(), "time": T.TimeType(), "variant": T.VariantType(),
    "interval day to second": T.DayTimeIntervalType(),
}  # fmt: skip


def data_type(name: str) -> DataType:
    """The type with a name such as `map<string, decimal(5,2)>`."""
    name = name.strip()
    head, _, inner = name.partition("<")
    parts = [*_parts(inner.removesuffix(">"))]
    if head == "array":
        return ArrayType(data_type(inner[:-1]))
    if head == "map":
        return MapType(data_type(parts[0]), data_type(parts[1]))
    if head == "struct":
        return schema(inner[:-1])
    numbers = [int(each) for each in re.findall(r"\d+", name)]
    if name.startswith("decimal"):
        return DecimalType(*numbers)
    return VarcharType(*numbers) if name.startswith("varchar") else _LEAVES[name]


def schema(columns: str) -> StructType:
    """The columns of a text such as `id: int, name: string`."""
    fields = (part.split(":", 1) for part in _parts(columns))
    return StructType([StructField(name.strip(), data_type(kind)) for name, kind in fields])


def _parts(text: str) -> Iterator[str]:
    """The parts between the commas that are not in brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            yield part
            part = ""
        else:
            part += letter
    if part.strip():
        yield part
