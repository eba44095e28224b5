"""The columns of two tables are paired by name, and compared in a type that holds the values of both."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    CharType,
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from framework.foundation.errors import UserError
from framework.recovery.alignment import Alignment, ColumnPair, align
from framework.recovery.comparison import ColumnFinding
from framework.schema.data_types import common_type
from framework.schema.lattice import COMPARISON


def struct(**fields: DataType) -> StructType:
    """A struct of these fields."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ShortType(), LongType(), LongType()),
        (DecimalType(10, 2), DecimalType(8, 4), DecimalType(12, 4)),
        (LongType(), DecimalType(38, 0), DecimalType(38, 0)),
        (LongType(), DecimalType(38, 20), None),
        (FloatType(), DoubleType(), DoubleType()),
        (LongType(), DoubleType(), None),
        (CharType(3), VarcharType(5), StringType()),
        (StringType("UTF8_LCASE"), StringType(), StringType()),
        (TimestampType(), TimestampNTZType(), None),
        (DateType(), TimestampType(), None),
        (ArrayType(IntegerType(), containsNull=False), ArrayType(LongType()), ArrayType(LongType())),
        (MapType(StringType(), IntegerType()), MapType(StringType(), DoubleType()), None),
        (struct(a=IntegerType()), struct(A=LongType()), struct(a=LongType())),
        (struct(a=IntegerType()), struct(b=IntegerType()), None),
    ],
    ids=str,
)
def test_the_common_type_holds_every_value_of_both(
    first: DataType, second: DataType, expected: DataType | None
) -> None:
    """A type that would round or fail is none."""
    assert common_type(first, second, COMPARISON) == expected
    if expected is None:
        assert common_type(second, first, COMPARISON) is None


def test_columns_that_cannot_be_compared_are_reported() -> None:
    """Columns of one table only, and columns of two types that have nothing in common."""
    first = struct(Id=IntegerType(), only_here=DateType(), kind=StringType(), n=ShortType())
    second = struct(n=LongType(), ID=IntegerType(), kind=DateType(), only_there=DateType())
    assert align(first, second, names=("a", "b"), keys=("id",), columns=()) == Alignment(
        keys=(ColumnPair(name="Id", first=0, second=1, data_type=IntegerType()),),
        values=(ColumnPair(name="n", first=3, second=0, data_type=LongType()),),
        findings=(
            ColumnFinding(name="only_here", first_type="date", second_type=None),
            ColumnFinding(name="kind", first_type="string", second_type="date"),
            ColumnFinding(name="only_there", first_type=None, second_type="date"),
        ),
    )


def test_chosen_columns_are_the_only_ones_that_count() -> None:
    """With `columns`, other columns are neither compared nor reported."""
    first, second = struct(id=LongType(), a=LongType(), b=DateType()), struct(id=LongType(), a=LongType())
    found = align(first, second, names=("a", "b"), keys=("id",), columns=("A",))
    assert ([pair.name for pair in found.values], found.findings) == (["a"], ())


@pytest.mark.parametrize(
    ("keys", "columns", "condition"),
    [
        (("idd",), (), "RECONCILE_COLUMN_MISSING"),
        ((), ("b",), "RECONCILE_COLUMN_MISSING"),
        (("kind",), (), "RECONCILE_KEY_TYPES_DIFFER"),
        ((), ("kind",), "RECONCILE_NOTHING_IN_COMMON"),
    ],
)
def test_an_impossible_comparison_is_refused(keys: tuple[str, ...], columns: tuple[str, ...], condition: str) -> None:
    """A key or a column that one table lacks, and keys without a common type."""
    first, second = struct(id=LongType(), kind=DateType(), b=LongType()), struct(id=LongType(), kind=LongType())
    with pytest.raises(UserError) as caught:
        align(first, second, names=("a", "b"), keys=keys, columns=columns)
    assert caught.value.condition == condition
