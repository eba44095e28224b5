"""Differences between the rows of a table and the expected rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from framework.sandbox.differences.comparison import compare_rows
from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.differences.row_difference import RowDifference
from framework.sandbox.rows import Rows
from tests.support.spark_types import schema

ORDERS = "id: int, customer: string, amount: double"
BASE = [(1, "Ada", 120.0), (2, "Grace", 40.0), (3, "Linus", 7.5)]
LONG = "https://example.com/flights/2026/01/31/departures/schedule?gate=A&t=1&delay="
WIDE = ", ".join(f"column_{number}: string" for number in range(12))


def difference(
    columns: str, expected: Any, found: Any, *, keys: Sequence[str] = (), ordered: bool = False
) -> RowDifference | None:
    """The difference between rows in their spellings of tests."""
    types = schema(columns)
    wanted = Rows.of(expected).typed(types, keep_misfits=True)
    return compare_rows(wanted, Rows.of(found).typed(types), types, keys=keys, ordered=ordered)


def printed(columns: str, expected: Any, found: Any, *, keys: Sequence[str] = (), **options: Any) -> list[str]:
    """The lines of the printed difference without the first one and the legend."""
    ordered = options.pop("ordered", False)
    found_difference = difference(columns, expected, found, keys=keys, ordered=ordered)
    assert found_difference is not None
    lines = DifferenceFormat(**options).text("orders", found_difference).splitlines()[2:-1]
    return lines if lines[-1] else lines[:-1]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("double", math.nan, float("nan")),
        ("double", 0.0, -0.0),
        ("float", 0.1, 0.10000000149011612),
        ("decimal(5,2)", "1.1", Decimal("1.10")),
        ("timestamp", "2026-01-31 12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("binary", b"a", "a"),
        ("array<double>", [0.0, math.nan], [-0.0, math.nan]),
        ("map<string, int>", {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ("struct<x: map<double, int>>", {"x": {0.0: 1}}, {"x": {-0.0: 1}}),
        ("variant", '{"a": 1, "b": [1.0]}', '{"b": [1], "a": 1}'),
    ],
)
def test_equal_values_of_a_type_are_equal(kind: str, first: object, second: object) -> None:
    """As Spark has them equal, in whatever spelling."""
    assert difference(f"c: {kind}", [(first,), (None,)], [(None,), (second,)]) is None


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("double", math.nan, None),
        ("string", "a", "a "),
        ("string", "", None),
        ("string", "\u00e9", "e\u0301"),
        ("timestamp", "2026-01-31 12:00", "2026-01-31 12:00:00.000001"),
        ("array<int>", [1, 2], [2, 1]),
        ("array<int>", [], None),
        ("map<string, int>", {"a": None}, {}),
        ("variant", '"1"', "1"),
        ("variant", "true", "1"),
        ("variant", "null", None),
        ("int", "1", 1),
        ("string", 1, "1"),
    ],
)
def test_other_values_differ(kind: str, first: object, second: object) -> None:
    """A value of another Python type does, too, though both are printed in the same way."""
    assert difference(f"c: {kind}", [(first,)], [(second,)]) is not None


def test_rows_are_a_multiset() -> None:
    """Their order does not count, and their number does."""
    assert difference(ORDERS, BASE, BASE[::-1]) is None
    twice = difference(ORDERS, [*BASE, BASE[0]], BASE)
    assert twice is not None
    assert [(2, 1)] == [(row.expected, row.found) for row in twice.missing]


def test_rows_of_the_same_key_are_pairs() -> None:
    """Also if a key has several rows; without keys, rows are paired that have enough in common."""
    versions = [(1, "a", 1), (1, "b", 2), (2, "c", 3)]
    found = [(1, "b", 9), (1, "a", 8), (3, "c", 3)]
    by_key = difference("id: int, name: string, at: int", versions, found, keys=["id"])
    assert by_key is not None
    pairs = [((1, "a", 1), (1, "a", 8)), ((1, "b", 2), (1, "b", 9))]
    assert pairs == [(pair.expected, pair.found) for pair in by_key.pairs]
    alike = difference("id: int, name: string, at: int", versions, found)
    assert alike is not None
    assert [*pairs, ((2, "c", 3), (3, "c", 3))] == sorted((pair.expected, pair.found) for pair in alike.pairs)


def test_rows_with_nothing_in_common_are_no_pair() -> None:
    """One is missing, and the other one is unexpected."""
    found = difference("id: int, ok: boolean, n: string", [(1, True, None)], [(2, True, "x")])
    assert found is not None
    assert ((), 1, 1) == (found.pairs, len(found.missing), len(found.unexpected))


def test_the_order_counts_if_it_is_asked_for() -> None:
    """The places are in the difference."""
    found = difference(ORDERS, BASE, [BASE[1], BASE[0], BASE[2]], ordered=True)
    assert found is not None
    assert [1, 2] == [pair.place for pair in found.moved]
    assert difference(ORDERS, BASE, BASE, ordered=True) is None


def test_a_difference_is_a_table_with_the_cells_that_differ() -> None:
    """The whole text, with one row of each kind."""
    found = difference(ORDERS, BASE, [(1, "Ada", 100.0), BASE[1], BASE[1], (4, "Kay", 1.0)])
    assert found is not None
    expected = """\
orders has other rows than expected: 1 with other values, 1 missing, 2 unexpected (3 rows expected, 4 found).

    id | customer | amount
  ~  1 | Ada      | 120.0 -> 100.0
  -  3 | Linus    | 7.5
  +  2 | Grace    | 40.0             found 2 times, expected 1
  +  4 | Kay      | 1.0

  ~ expected -> found   - expected, not found   + found, not expected"""
    assert expected == DifferenceFormat().text("orders", found)


@pytest.mark.parametrize(
    ("columns", "expected", "found", "lines"),
    [
        ("id: int, name: string", [(1, None)], [(1, "NULL")], ["    id | name", "  ~  1 | NULL -> 'NULL'"]),
        ("id: int, name: string", [(1, "x")], [(1, "x ")], ["    id | name", "  ~  1 | x -> 'x '"]),
        ("id: int, c: string", [(1, "é")], [(1, "e\u0301")], ["    id | c", r"  ~  1 | '\xe9' -> 'e\u0301'"]),
        (
            "id: int, c: string",
            [("1", 5)],
            [(1, "5")],
            [
                "    id                    | c",
                "  ~ '1' (text) -> 1 (int) | 5 (int) -> 5 (string)",
                "",
                "  id is int: it is of the type text, not a whole number.",
                "  c is string: it is of the type int, not a text.",
            ],
        ),
        (
            "id: int, url: string",
            [(1, LONG + "12")],
            [(1, LONG + "13&x=1")],
            [
                "    id | url",
                (
                    "  ~  1 | …31/departures/schedule?gate=A&t=1&delay=12 -> "
                    "…31/departures/schedule?gate=A&t=1&delay=13&x=1"
                ),
            ],
        ),
        (
            "id: int, s: struct<x: int, tags: array<string>>",
            [(1, {"x": 1, "tags": ["a", None]})],
            [(1, {"x": 1, "tags": ["b"]})],
            ["    id | s", "  ~  1 | {x: 1, tags: ['a', NULL]} -> {x: 1, tags: ['b']}"],
        ),
        (
            "id: int, d: decimal(5,2), f: float, b: binary",
            [(1, "1.1", 0.1, b"\x00")],
            [(1, "1.1", 0.25, b"\x00")],
            ["    id |    d | f           | b", "  ~  1 | 1.10 | 0.1 -> 0.25 | 0x00"],
        ),
    ],
)
def test_one_sees_how_two_cells_differ(columns: str, expected: Any, found: Any, lines: list[str]) -> None:
    """NULL, blanks, look-alikes, types, and long texts around the place where they differ."""
    assert lines == printed(columns, expected, found)


def test_why_an_expected_value_does_not_fit_its_column_is_printed() -> None:
    """Once for each column."""
    expected = [
        "    id                    | name",
        "  ~ '1' (text) -> 1 (int) | a",
        "  ~ '2' (text) -> 2 (int) | b",
        "",
        "  id is int: it is of the type text, not a whole number.",
    ]
    types, rows = "id: int, name: string", [("1", "a"), ("2", "b")]
    found = difference(types, rows, [(1, "a"), (2, "b")])
    assert found is not None
    assert expected == DifferenceFormat().text("orders", found).splitlines()[2:-1]


def test_points_in_time_are_in_the_zone_of_the_session() -> None:
    """With their offset only if they would look the same."""
    zone = ZoneInfo("Europe/Berlin")
    lines = printed("t: timestamp", [("2026-01-31 12:00Z",)], [("2026-01-31 13:00Z",)], zone=zone)
    assert ["    t", "  - 2026-01-31 13:00:00", "  + 2026-01-31 14:00:00"] == lines


def test_many_rows_are_cut_with_some_of_each_kind() -> None:
    """The number of the others is printed."""
    expected = [(number, f"c{number}", float(number)) for number in range(1000)]
    found = [(number, name, amount + (number % 2)) for number, name, amount in expected[3:]]
    lines = printed(ORDERS, expected, found, rows=6)
    assert ["~", "~", "~", "-", "-", "-", "…"] == [line.split()[0] for line in lines[1:]]
    assert "    … and 496 more" == lines[-1]


def test_rows_that_are_too_wide_for_a_table_are_a_list() -> None:
    """A row with other values has the columns that differ, and those that identify it."""
    rows = [tuple(f"value {column} {row}" for column in range(12)) for row in range(2)]
    other = [(*rows[0][:7], "x", *rows[0][8:]), rows[1]]
    lines = printed(WIDE, rows, other, keys=["column_1"])
    assert ["  ~ column_1 = value 1 0", "      column_7: value 7 0 -> x"] == lines
    lone = printed(WIDE, rows[:1], [])
    assert all(len(line) <= 120 for line in lone)
    assert all(f"column_{number} = value {number} 0" in " ".join(map(str.strip, lone)) for number in range(12))


def test_colours_do_not_move_the_columns() -> None:
    """The text without codes is that without colours."""
    found = difference(ORDERS, BASE, [(1, "Ada", 100.0), BASE[1], (4, "Kay", 1.0)])
    assert found is not None
    coloured = DifferenceFormat(colour=True).text("orders", found)
    assert "\x1b[31m120.0\x1b[0m -> \x1b[32m100.0\x1b[0m" in coloured
    for code in (31, 32, 2, 1, 0):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == DifferenceFormat().text("orders", found)


def test_ten_thousand_rows_are_compared_without_comparing_each_with_each() -> None:
    """All of them are paired by the values that tell them apart."""
    expected = [(number, f"c{number}", float(number)) for number in range(10_000)]
    found = [(number, name, amount + 0.5) for number, name, amount in expected]
    result = difference(ORDERS, expected, found)
    assert result is not None
    assert 10_000 == len(result.pairs)
