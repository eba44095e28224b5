"""Texts of values in files of JSON and CSV, and messages of topics."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from framework.foundation.errors import UserError
from framework.sandbox.file_texts import csv_line, json_text
from framework.sandbox.kafka_inputs import messages_of

INT, STRING = IntegerType(), StringType()
NESTED = StructType([StructField("a", INT), StructField("b", StructType([StructField("c", STRING)]))])
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, INT, "null"),
        (True, BooleanType(), "true"),
        (1.5, DoubleType(), "1.5"),
        (float("nan"), DoubleType(), '"NaN"'),
        (float("-inf"), DoubleType(), '"-Infinity"'),
        (Decimal("1E+2"), DecimalType(9, 0), "100"),
        ('é\n"', STRING, '"é\\n\\""'),
        (b"\x00", BinaryType(), '"AA=="'),
        (date(2026, 1, 31), DateType(), '"2026-01-31"'),
        (NOON, TimestampType(), '"2026-01-31T12:00:00.000000Z"'),
        (NOON.replace(tzinfo=None), TimestampNTZType(), '"2026-01-31T12:00:00.000000"'),
        ([1, None], ArrayType(INT), "[1, null]"),
        ({"a": 1}, MapType(STRING, INT), '{"a": 1}'),
        ((1, ("x",)), NESTED, '{"a": 1, "b": {"c": "x"}}'),
    ],
)
def test_json_has_a_value_as_spark_reads_it(value: Any, kind: DataType, text: str) -> None:
    """A value of each type is written as the JSON from which Spark reads the same value."""
    assert json_text(value, kind) == text


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ((1, "a", None), "1;a;"),
        (("", " b", "c;d", 'e"f'), '"";" b";"c;d";"e\\"f"'),
        ((False, Decimal("1.50"), NOON), "false;1.50;2026-01-31T12:00:00.000000Z"),
        ((None,), '""'),
        (("a\nb",), None),
        (("a\\",), None),
    ],
)
def test_csv_has_a_row_as_spark_reads_it(values: tuple[Any, ...], line: str | None) -> None:
    """A row is one line with quotes where they are needed; Spark writes rows with line breaks and backslashes."""
    assert csv_line(values, ";") == line


def test_messages_have_the_columns_of_kafka() -> None:
    """A message is a dict, a text, bytes, a tuple of key and value, or a dict of Kafka's columns."""
    items = [{"id": 1}, "text", b"\x00", ("k", {"at": NOON}), {"value": None, "key": "k", "headers": {"h": "1"}}]
    found = messages_of(items, "orders", 7, 0.0)
    assert [row[:5] for row in found] == [
        (None, b'{"id": 1}', "orders", 0, 7),
        (None, b"text", "orders", 0, 8),
        (None, b"\x00", "orders", 0, 9),
        (b"k", b'{"at": "2026-01-31T12:00:00.000000Z"}', "orders", 0, 10),
        (b"k", None, "orders", 0, 11),
    ]
    assert found[-1][7] == [("h", b"1")]
    assert messages_of("id | name\n1 | Ada", "t", 0, 0.0)[0][1] == b'{"id": 1, "name": "Ada"}'


def test_a_message_of_three_parts_is_refused() -> None:
    """A tuple is a key and a value."""
    with pytest.raises(UserError) as error:
        messages_of([("a", "b", "c")], "orders", 0, 0.0)
    assert error.value.condition == "TEST_MESSAGE_INVALID"
