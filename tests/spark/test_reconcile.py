"""Two tables are compared exactly, whatever the types of their values are."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.recovery.alignment import Alignment, align
from framework.recovery.comparison import DifferenceKind, KeyDifference, Totals
from framework.recovery.differences import Differences, find_differences
from tests.support.seeds import fresh_seed

Values = tuple[Any, ...]
Found = tuple[str, frozenset[str], int, int]
"""The kind of a difference, its columns, and the numbers of rows."""

SCHEMA = (
    "part STRING, id INT, amount DECIMAL(20,4), ratio DOUBLE, at TIMESTAMP, day DATE, data BINARY, "
    "place STRUCT<city: STRING, zip: INT>, tags ARRAY<STRING>, sizes MAP<STRING, DOUBLE>, "
    "nested ARRAY<STRUCT<m: MAP<INT, ARRAY<DOUBLE>>>>"
)
COLUMNS = ("amount", "ratio", "at", "day", "data", "place", "tags", "sizes", "nested")
SIZES = [("a", 0.0), ("b", math.nan), ("c", -1.0), ("d", None)]
DRAWS: dict[str, Callable[[random.Random], Any]] = {
    "amount": lambda seed: Decimal(seed.randint(-(10**9), 10**9)).scaleb(-4),
    "ratio": lambda seed: seed.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 5e-324]),
    "at": lambda seed: datetime(seed.randint(1900, 2200), 1, 1, 12, 0, 0, seed.randint(0, 999_999), tzinfo=UTC),
    "day": lambda seed: date(seed.randint(2, 9998), 2, 28),
    "data": lambda seed: bytearray(seed.randbytes(seed.randint(0, 3))),
    "place": lambda seed: (seed.choice(["Oaxaca", "", None]), seed.choice([0, None, 68000])),
    "tags": lambda seed: [seed.choice(["", "a", None]) for _ in range(seed.randint(0, 3))],
    "sizes": lambda seed: dict(
        seed.sample([("a", 0.0), ("b", math.nan), ("c", -1.0), ("d", None)], seed.randint(0, 4))
    ),
    "nested": lambda seed: [({1: [0.0, None], 2: None} if seed.random() < 0.5 else None,)] * seed.randint(0, 2),
}


def drawn(seed: random.Random, name: str) -> Any:
    """A value of a column, NULL at times."""
    return None if seed.random() < 0.1 else DRAWS[name](seed)


def plain(value: Any) -> Any:
    """A value as Spark's `<=>` sees it: all NaN are equal, both zeros are, and maps have no order."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case dict():
            return tuple(sorted((key, plain(each)) for key, each in value.items()))
        case list() | tuple():
            return tuple(plain(each) for each in value)
        case bytearray():
            return bytes(value)
        case _:
            return value


def world(seed: random.Random) -> tuple[list[Values], list[Values]]:
    """Two tables: the second has the rows of the first with every kind of difference."""
    rows = [
        (seed.choice(["a", "b", None]), seed.choice([None, *range(150)]), *(drawn(seed, name) for name in COLUMNS))
        for _ in range(300)
    ]
    other: list[Values] = []
    for row in rows:
        match seed.randint(0, 9):
            case 0:
                pass  # gone
            case 1:
                other += [row, row]  # there twice
            case 2:
                place = seed.randrange(len(COLUMNS))
                changed = list(row)
                changed[2 + place] = drawn(seed, COLUMNS[place])
                other.append(tuple(changed))
            case 3:
                other += [row, (f"new {row[0]}", *row[1:])]
            case _:
                other.append(row)
    seed.shuffle(other)
    return rows, other


def expected(first: list[Values], second: list[Values], width: int) -> dict[Values, Found]:
    """What the comparison by the first `width` columns must find for each key."""
    sides = [Counter(plain(row) for row in rows) for rows in (first, second)]
    found: dict[Values, Found] = {}
    for key in {row[:width] for side in sides for row in side}:
        one, two = (Counter({row: n for row, n in side.items() if row[:width] == key}) for side in sides)
        if one == two:
            continue
        kind = DifferenceKind.DIFFERENT
        if not one or not two:
            kind = DifferenceKind.ONLY_FIRST if one else DifferenceKind.ONLY_SECOND
        changed = {
            name
            for place, name in enumerate(COLUMNS, start=2)
            if kind is DifferenceKind.DIFFERENT and width == 2 and column_of(one, place) != column_of(two, place)
        }
        found[key] = (kind.value, frozenset(changed), one.total(), two.total())
    return found


def column_of(rows: Counter[Values], place: int) -> Counter[Any]:
    """The values of a column with their numbers."""
    found: Counter[Any] = Counter()
    for row, count in rows.items():
        found[row[place]] += count
    return found


def found_in(result: Differences) -> dict[Values, Found]:
    """The differing keys of a result in the form of `expected`."""
    return {
        plain(each.key): (each.kind.value, frozenset(each.columns), each.first_rows, each.second_rows)
        for each in result.keys
    }


def paired(first: DataFrame, second: DataFrame, *keys: str) -> Alignment:
    """The pairs of the columns of two tables."""
    return align(first.schema, second.schema, names=("a", "b"), keys=keys, columns=())


def test_every_difference_of_random_tables_is_found_with_its_columns(interpreting: SparkSession) -> None:
    """Lost, new, doubled and changed rows, NULL keys and values of every type: keys, columns and totals are exact."""
    number = fresh_seed()
    seed = random.Random(number)  # noqa: S311 - no secret
    rows, other = world(seed)
    # Maps are compared by their entries: the same in another order is no difference.
    turned = [(*row[:9], row[9] and dict(reversed(row[9].items())), *row[10:]) for row in other]
    first, second = interpreting.createDataFrame(rows, SCHEMA), interpreting.createDataFrame(turned, SCHEMA)
    result = find_differences(first, second, paired(first, second, "part", "id"), limit=100_000)
    wanted = expected(rows, other, 2)
    assert found_in(result) == wanted, f"seed {number}"
    kinds = Counter(kind for kind, *_ in wanted.values())
    changed = Counter(name for _, names, *_ in wanted.values() for name in names)
    assert result.totals == Totals(
        only_first=kinds["only in the first"],
        only_second=kinds["only in the second"],
        different=kinds["different"],
        duplicate=sum(1 for *_, one, two in wanted.values() if max(one, two) > 1),
        columns=tuple((name, changed[name]) for name in COLUMNS if changed[name]),
    ), f"seed {number}"
    assert (result.first_rows, result.second_rows) == (len(rows), len(other))
    whole = find_differences(first, second, paired(first, second), limit=0)
    by_row = expected(rows, other, len(COLUMNS) + 2)
    assert (whole.totals.keys, whole.keys) == (len(by_row), ()), f"seed {number}"


def test_equal_values_in_another_form_are_no_difference(interpreting: SparkSession) -> None:
    """Both zeros, INT and BIGINT, DECIMAL of two scales, FLOAT and DOUBLE, names in another case: all are equal."""
    first = interpreting.sql(
        "SELECT id, CAST(id AS INT) whole, CAST(id AS DECIMAL(9,2)) amount, CAST(id AS FLOAT) / 4 ratio, -0.0D zero, "
        "array(CAST('NaN' AS DOUBLE), -0.0D) parts, map('a', id, 'b', 1L) sizes, 'x' name FROM range(1000)"
    )
    second = interpreting.sql(
        "SELECT map('b', 1L, 'a', id) SIZES, array(CAST('NaN' AS DOUBLE), 0.0D) parts, 0.0D zero, id / 4D ratio, "
        "CAST(id AS DECIMAL(12,4)) amount, id whole, id, 'x' name FROM range(1000) DISTRIBUTE BY id % 3"
    )
    pairs = paired(first, second, "id")
    assert len(pairs.values) == 7
    assert find_differences(first, second, pairs, limit=5).totals == Totals()


def test_ten_differences_in_a_large_table_are_found_in_two_reads(spark: SparkSession) -> None:
    """Each side is read twice; equal tables are read once."""
    reads = [spark.sparkContext.accumulator(0) for _ in range(2)]

    def counting(frame: DataFrame, place: int) -> DataFrame:
        count = reads[place]

        def pass_on(batches: Any) -> Any:
            for batch in batches:
                count.add(batch.num_rows)
                yield batch

        return frame.mapInArrow(pass_on, frame.schema)

    rows = 40_000
    first = spark.range(rows).select("id", F.concat(F.lit("name "), "id").alias("name"), (F.col("id") * 2).alias("n"))
    second = first.withColumn("n", F.when(F.col("id") % 4_000 == 7, -1).otherwise(F.col("n")))
    one, other = counting(first, 0), counting(second, 1)
    result = find_differences(one, other, paired(one, other, "id"), limit=20)
    assert [each.value for each in reads] == [2 * rows, 2 * rows]
    assert result == Differences(
        first_rows=rows,
        second_rows=rows,
        totals=Totals(different=10, columns=(("n", 10),)),
        keys=tuple(
            KeyDifference(
                kind=DifferenceKind.DIFFERENT, key=(4_000 * n + 7,), columns=("n",), first_rows=1, second_rows=1
            )
            for n in range(10)
        ),
    )
    assert find_differences(one, one, paired(one, one, "id"), limit=20).totals == Totals()
    assert [each.value for each in reads] == [4 * rows, 2 * rows]
