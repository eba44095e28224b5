"""Values of tests in the types of Spark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from pyspark.sql.types import Row, VariantVal

from framework.sandbox.values.misfits import MisfitError
from framework.sandbox.values.text_tables import TextCell
from framework.sandbox.values.typed_values import of_spark, typed_value
from tests.support.spark_types import data_type


class Point(NamedTuple):
    """A point as a named tuple."""

    x: int
    y: str


@dataclass
class Place:
    """A point as a dataclass."""

    x: int
    y: str | None = None


def cell(text: str) -> TextCell:
    """A cell of a text table."""
    return TextCell(text)


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FITTING: list[tuple[str, object, object]] = [
    ("tinyint", -128, -128),
    ("smallint", cell("32767"), 32767),
    ("int", cell("+7"), 7),
    ("bigint", 2**63 - 1, 2**63 - 1),
    ("bigint", 7.0, 7),
    ("bigint", np.int32(7), 7),
    ("double", 1, 1.0),
    ("double", cell("-1.5e3"), -1500.0),
    ("double", cell("-Infinity"), -math.inf),
    ("double", Decimal("0.1"), 0.1),
    ("double", np.float64(0.5), 0.5),
    ("float", 0.1, 0.10000000149011612),
    ("decimal(5,2)", "12.3", Decimal("12.30")),
    ("decimal(5,2)", cell("-999.99"), Decimal("-999.99")),
    ("decimal(5,2)", 0.1, Decimal("0.10")),
    ("decimal(38,38)", Decimal("0." + "9" * 38), Decimal("0." + "9" * 38)),
    ("decimal(3,0)", "1e2", Decimal(100)),
    ("boolean", True, True),
    ("boolean", cell("FALSE"), False),
    ("string", "a ", "a "),
    ("string", cell("007"), "007"),
    ("varchar(3)", "abc", "abc"),
    ("binary", bytearray(b"a"), b"a"),
    ("binary", cell("0x00fF"), b"\x00\xff"),
    ("binary", "é", b"\xc3\xa9"),
    ("date", date(2026, 1, 31), date(2026, 1, 31)),
    ("date", "2026-1-31", date(2026, 1, 31)),
    ("date", NOON.replace(hour=0, tzinfo=None), date(2026, 1, 31)),
    ("timestamp", NOON, NOON),
    ("timestamp", "2026-01-31T12:00:00Z", NOON),
    ("timestamp", cell("2026-01-31 13:00 +01:00"), NOON),
    ("timestamp", cell("2026-01-31 13:00:00.000000 Europe/Berlin"), NOON),
    ("timestamp", "2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
    ("timestamp", pd.Timestamp("2026-01-31 12:00"), NOON),
    ("timestamp", datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))), NOON),
    ("timestamp_ntz", "2026-01-31 12:00:00.000001", NOON.replace(microsecond=1, tzinfo=None)),
    ("time", "12:30", time(12, 30)),
    ("interval day to second", timedelta(days=1, seconds=2), timedelta(days=1, seconds=2)),
    ("interval day to second", cell("-1 02:03:04.5"), -timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    ("interval day to second", "PT1H30M", timedelta(minutes=90)),
    ("array<int>", [1, None], [1, None]),
    ("array<int>", cell("[1, null]"), [1, None]),
    ("array<string>", np.array(["a"]), ["a"]),
    ("map<int, date>", {1: "2026-01-31"}, {1: date(2026, 1, 31)}),
    ("map<int, date>", cell('{"1": "2026-01-31"}'), {1: date(2026, 1, 31)}),
    ("struct<x: int, y: string>", {"Y": "a", "x": 1}, Row(x=1, y="a")),
    ("struct<x: int, y: string>", {"x": 1}, Row(x=1, y=None)),
    ("struct<x: int, y: string>", (1, "a"), Row(x=1, y="a")),
    ("struct<x: int, y: string>", Point(1, "a"), Row(x=1, y="a")),
    ("struct<x: int, y: string>", Place(1), Row(x=1, y=None)),
    ("struct<x: int, y: string>", Row(y="a", x=1), Row(x=1, y="a")),
    ("struct<x: decimal(20,18)>", cell('{"x": 1.100000000000000001}'), Row(x=Decimal("1.100000000000000001"))),
    ("array<struct<x: map<string, int>>>", [{"x": {"a": 1}}], [Row(x={"a": 1})]),
    ("void", None, None),
]
MISFITS: list[tuple[str, object, str]] = [
    ("tinyint", 128, "it is out of the range of 8 bits."),
    ("int", cell("1.5"), "it is not a whole number."),
    ("int", 1.5, "it is of the type float, not a whole number."),
    ("int", "1", "it is of the type text, not a whole number."),
    ("int", True, "it is of the type bool, not a whole number."),
    ("int", math.nan, "it is of the type float, not a whole number."),
    ("double", 2**53 + 1, "a double has 53 bits for the digits of a whole number."),
    ("double", 2**2000, "a double has 53 bits for the digits of a whole number."),
    ("double", "1.5", "it is of the type text, not a number."),
    ("double", cell("1_000"), "it is not a number."),
    ("float", 1e300, "it is out of the range of a float."),
    ("decimal(5,2)", "1.005", "it has 3 digits after the point, not at most 2."),
    ("decimal(5,2)", 1000, "it has 4 digits before the point, not at most 3."),
    ("decimal(5,2)", cell("NaN"), "it is not a decimal number."),
    ("boolean", 1, "it is of the type int, not true or false."),
    ("boolean", cell("maybe"), "it is neither true nor false."),
    ("string", 1, "it is of the type int, not a text."),
    ("varchar(3)", "abcd", "it has 4 characters, not at most 3."),
    ("date", NOON, "it is a point in time."),
    ("date", "2026-02-30", "the calendar has no such day."),
    ("date", "31.1.2026", "write a date as 2026-01-31."),
    ("timestamp", "2026-01-31 25:00", "the day has no such time."),
    ("timestamp", "2026-01-31 12:00 Mars/Base", "'Mars/Base' is no time zone."),
    ("timestamp", pd.Timestamp("2026-01-31 12:00:00.000000001"), "it has nanoseconds, and Spark has microseconds."),
    ("timestamp_ntz", NOON, "it has a time zone."),
    ("array<int>", {"a": 1}, "it is of the type dict, not a list."),
    ("map<string, int>", {None: 1}, "a key is NULL."),
    ("map<string, int>", [1], "it is of the type list, not a dict."),
    ("map<double, int>", {0.0: 1, "NaN": 2}, "it is of the type text, not a number."),
    ("struct<x: int>", {"z": 1}, "it has no field 'z'."),
    ("struct<x: int>", (1, 2), "it has 2 values for the fields x."),
    (
        "interval day to second",
        "a day",
        "write an interval as 1 02:03:04.5 (days, hours, minutes, seconds) or PT1H30M.",
    ),
]


@pytest.mark.parametrize(("ddl", "value", "expected"), FITTING)
def test_a_value_becomes_the_value_of_its_type(ddl: str, value: object, expected: Any) -> None:
    """A literal of Python, a text or a cell is converted exactly, and NULL is NULL in every type."""
    found = typed_value(value, data_type(ddl))
    assert (expected, type(expected)) == (found, type(found))
    assert typed_value(None, data_type(ddl)) is None


@pytest.mark.parametrize(("ddl", "value", "cause"), MISFITS)
def test_a_value_that_a_type_does_not_have_is_a_misfit_with_its_cause(ddl: str, value: object, cause: str) -> None:
    """Nothing is rounded, truncated or parsed by chance."""
    with pytest.raises(MisfitError) as caught:
        typed_value(value, data_type(ddl))
    assert cause == caught.value.cause


def test_a_misfit_in_a_nested_value_has_its_path_and_type() -> None:
    """The message can name the field."""
    with pytest.raises(MisfitError) as caught:
        typed_value({"a": [{"b": 1}, {"b": "x"}]}, data_type("struct<a: array<struct<b: int>>>"))
    assert ((".a", "[1]", ".b"), "x", "int") == (caught.value.path, caught.value.value, caught.value.wanted)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-01 12:00", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-03-29 02:30", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),  # which the clocks skip
        ("2026-10-25 02:30", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # which they show twice
        ("2026-07-01 12:00Z", datetime(2026, 7, 1, 12, tzinfo=UTC)),
    ],
)
def test_a_point_in_time_without_zone_is_in_that_of_the_session(text: str, expected: datetime) -> None:
    """As in Spark, the first of two equal times is meant, and a skipped time is moved forward."""
    assert expected == typed_value(text, data_type("timestamp"), ZoneInfo("Europe/Berlin"))


def test_a_variant_is_json_or_a_value_of_python() -> None:
    """Both are the variant that Spark parses."""
    for value in ('{"a": [1, null]}', cell('{"a": [1, null]}'), {"a": [1, None]}):
        found = typed_value(value, data_type("variant"))
        assert isinstance(found, VariantVal)
        assert {"a": [1, None]} == found.toPython()


def test_collected_values_have_the_same_form() -> None:
    """PySpark's local times get their zone at any depth, and binary values are bytes."""
    local = NOON.astimezone().replace(tzinfo=None)
    ddl = "struct<t: timestamp, m: map<string, timestamp>, a: array<binary>, n: timestamp_ntz>"
    found = of_spark(Row(t=local, m={"a": local}, a=[bytearray(b"x"), None], n=local), data_type(ddl))
    assert Row(t=NOON, m={"a": NOON}, a=[b"x", None], n=local) == found
