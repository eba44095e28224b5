"""The bounds of a batch's keys: integers and ASCII text that all readers interpret alike."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    Row,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from framework.cdc.events.key_bounds import KeyRange, has_bounds

EPOCH = date(1970, 1, 1).toordinal()
DAY = 86_400_000_000
GAP = [date(1582, 10, day).toordinal() - EPOCH for day in (5, 14)]
FIRST, LAST = date(1, 1, 1).toordinal() - EPOCH, date(9999, 12, 31).toordinal() - EPOCH

BOUNDS: tuple[tuple[DataType, object, object, tuple[object, object]], ...] = (
    (ByteType(), -128, 127, (-128, 127)),
    (LongType(), -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
    (LongType(), 7, 7, (7, 7)),
    (DecimalType(3, 1), "-99", "99", (-99, 99)),
    (DecimalType(3, 1), "-100", "100", (None, None)),
    (DecimalType(5, 5), "0", "1", (0, None)),
    (DecimalType(38, 0), "9" * 38, "9" * 38, (int("9" * 38), int("9" * 38))),
    (StringType(), "", "", (None, "")),
    (StringType(), "b", "cd", ("b", "cd")),
    (StringType(), "caf\ufffd", "caf\ufffd", ("caf", "cag")),
    (StringType(), "x" * 40, "x" * 40, ("x" * 32, "x" * 31 + "y")),
    (StringType(), "\u65e5", "\x7f\ufffd", (None, None)),
    (DateType(), LAST + 10, LAST + 20, (LAST - 1, None)),
    (DateType(), FIRST - 20, FIRST - 10, (None, FIRST + 1)),
    (TimestampType(), 0, DAY - 1, (0, 32)),
    (TimestampType(), -1, -1, (-32, 0)),
    (TimestampNTZType(), None, None, (None, None)),
)


@pytest.mark.parametrize(("data_type", "least", "most", "bounds"), BOUNDS, ids=lambda value: str(value)[:20])
def test_bounds_are_wide_enough_and_have_a_name_in_every_reader(
    data_type: DataType, least: object, most: object, bounds: tuple[object, object]
) -> None:
    """Values beyond a type, beyond years 1 to 9999, or after the ASCII prefix of a string have no bound."""
    found = KeyRange.read(Row(least=least, most=most), data_type)
    assert bounds == (found.least, found.most)


def test_no_bound_is_a_day_that_the_julian_calendar_lacks() -> None:
    """A reader would shift it by ten days."""
    for day in range(GAP[0] - 40, GAP[1] + 40):
        found = KeyRange.read(Row(least=day, most=day), DateType())
        assert isinstance(found.least, int)
        assert isinstance(found.most, int)
        assert found.least <= day <= found.most
        assert not any(GAP[0] <= bound <= GAP[1] for bound in (found.least, found.most))


def test_types_whose_readers_differ_have_no_bounds() -> None:
    """-0.0 and NaN, collations, padded strings, and types by which no reader skips files."""
    without = (
        FloatType(), DoubleType(), BinaryType(), BooleanType(), CharType(5), ArrayType(LongType()), StructType(),
        StringType("UTF8_LCASE"),
    )  # fmt: skip
    assert [False] * len(without) == [has_bounds(data_type) for data_type in without]
    assert all(has_bounds(data_type) for data_type, *_ in BOUNDS)
