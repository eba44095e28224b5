"""Compares the rows of a table with those that a test expects, as multisets or as sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from framework.sandbox.differences.equality import comparable
from framework.sandbox.differences.pairing import pair_rows
from framework.sandbox.differences.row_difference import LoneRow, RowDifference, RowKey, RowPair, Values

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def compare_rows(
    expected: Sequence[Values],
    found: Sequence[Values],
    schema: StructType,
    *,
    keys: Sequence[str] = (),
    ordered: bool = False,
) -> RowDifference | None:
    """Return how rows differ; None if they are equal. The time is linear in the number of rows.

    Args:
        expected: the expected rows; a `Misfit` in them equals nothing.
        found: the rows of the table.
        schema: the columns of both.
        keys: the columns that identify a row; all of them must be compared to have an effect.
        ordered: whether the order counts, once the rows are the same.
    """
    names = schema.fieldNames()
    known = tuple(keys) if {*keys} <= {*names} else ()
    wanted, present = _keyed(expected, schema), _keyed(found, schema)
    missing, unexpected = _lone_rows(wanted, present)
    pairs = pair_rows(missing, unexpected, [names.index(key) for key in known])
    paired = {*pairs.values()}
    difference = RowDifference(
        schema=schema,
        keys=known,
        expected=len(expected),
        found=len(found),
        pairs=tuple(
            _pair(first, missing[first].values, second, unexpected[second].values) for first, second in pairs.items()
        ),
        missing=tuple(row for key, row in missing.items() if key not in pairs),
        unexpected=tuple(row for key, row in unexpected.items() if key not in paired),
        moved=tuple(_moved(wanted, present)) if ordered and not missing and not unexpected else (),
    )
    is_equal = not (missing or unexpected or difference.moved)
    return None if is_equal else difference


def _keyed(rows: Sequence[Values], schema: StructType) -> list[tuple[RowKey, Values]]:
    """Return each row with its comparable form."""
    types = [field.dataType for field in schema.fields]
    return [(tuple(map(comparable, row, types)), row) for row in rows]


def _lone_rows(
    wanted: Sequence[tuple[RowKey, Values]], present: Sequence[tuple[RowKey, Values]]
) -> tuple[dict[RowKey, LoneRow], dict[RowKey, LoneRow]]:
    """Return the missing and the unexpected rows, each in the order of its side."""
    expected, found = Counter(key for key, _ in wanted), Counter(key for key, _ in present)
    rows = [
        {
            key: LoneRow(values=values, expected=expected[key], found=found[key])
            for key, values in side
            if more[key] > fewer[key]
        }
        for side, more, fewer in ((wanted, expected, found), (present, found, expected))
    ]
    return rows[0], rows[1]


def _pair(first: RowKey, expected: Values, second: RowKey, found: Values, place: int | None = None) -> RowPair:
    columns = tuple(number for number, (one, other) in enumerate(zip(first, second, strict=True)) if one != other)
    return RowPair(expected=expected, found=found, columns=columns, place=place)


def _moved(wanted: Sequence[tuple[RowKey, Values]], present: Sequence[tuple[RowKey, Values]]) -> Iterator[RowPair]:
    """Yield the positions at which another row was found."""
    for place, ((first, expected), (second, found)) in enumerate(zip(wanted, present, strict=True), start=1):
        if first != second:
            yield _pair(first, expected, second, found, place)
