"""Which missing row and which unexpected row are probably the same row with other values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.sandbox.differences.row_difference import LoneRow, RowKey
from framework.sandbox.values.misfits import Misfit

_MOST_VOTES = 16
"""The number of rows with one value in one column, from which the value does not tell rows apart."""

_MOST_CANDIDATES = 8
_MOST_ROWS = 10_000

Pair = tuple[RowKey, RowKey]


def pair_rows(
    missing: Mapping[RowKey, LoneRow], unexpected: Mapping[RowKey, LoneRow], keys: Sequence[int]
) -> dict[RowKey, RowKey]:
    """Return the unexpected row of each missing row that has one.

    Args:
        missing: the missing rows by their comparable form.
        unexpected: the unexpected rows by theirs.
        keys: the positions of the columns that identify a row. Without any, rows are paired that have half of their
            cells in common, or a value that no other of these rows has.
    """
    firsts, seconds = (
        [_Row(key=key, cells=key) for key, row in rows.items() if row.is_single][:_MOST_ROWS]
        for rows in (missing, unexpected)
    )
    if any(isinstance(cell, Misfit) for row in firsts for cell in row.cells):
        firsts, seconds = ([_by_look(row) for row in rows] for rows in (firsts, seconds))
    pairs = _of_same_key(firsts, seconds, keys) if keys else _alike(firsts, seconds)
    return _distinct(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row by its comparable form, and the cells by which it is paired."""

    key: RowKey
    cells: RowKey


def _by_look(row: _Row) -> _Row:
    """Return a row whose cells are texts: a value of another type looks like the one that was found."""
    cells = (str(cell.value) if isinstance(cell, Misfit) else cell for cell in row.cells)
    return _Row(key=row.key, cells=tuple(None if cell is None else str(cell) for cell in cells))


def _distinct(pairs: Iterator[tuple[int, Pair]]) -> dict[RowKey, RowKey]:
    """Return the pairs with the most equal cells, in which each row is once."""
    chosen: dict[RowKey, RowKey] = {}
    taken = set[RowKey]()
    for _, (first, second) in sorted(pairs, key=lambda each: -each[0]):  # the sort keeps the order of equal ones
        if first not in chosen and second not in taken:
            chosen[first] = second
            taken.add(second)
    return chosen


def _of_same_key(firsts: list[_Row], seconds: list[_Row], keys: Sequence[int]) -> Iterator[tuple[int, Pair]]:
    """Yield pairs of rows with the same key, which is that of several rows in a history."""
    by_key = defaultdict[Hashable, list[_Row]](list)
    for second in seconds:
        by_key[tuple(second.cells[place] for place in keys)].append(second)
    for first in firsts:
        for second in by_key[tuple(first.cells[place] for place in keys)][:_MOST_VOTES]:
            yield _equal_cells(first, second), (first.key, second.key)


def _alike(firsts: list[_Row], seconds: list[_Row]) -> Iterator[tuple[int, Pair]]:
    """Yield pairs of rows that are alike, found by the values that few rows have."""
    index = defaultdict[tuple[int, Hashable], list[int]](list)
    for number, second in enumerate(seconds):
        for cell in enumerate(second.cells):
            index[cell].append(number)
    owners = Counter(cell for first in firsts for cell in enumerate(first.cells))
    for first in firsts:
        votes, linked = Counter[int](), set[int]()
        for cell in enumerate(first.cells):
            found = index.get(cell, [])
            if _is_telling(cell[1]) and len(found) <= _MOST_VOTES:
                votes.update(found)
                linked.update(found if len(found) == owners[cell] == 1 else ())
        for number, _ in votes.most_common(_MOST_CANDIDATES):
            equal = _equal_cells(first, seconds[number])
            if number in linked or 2 * equal >= len(first.cells):
                yield equal, (first.key, seconds[number].key)


def _is_telling(value: Hashable) -> bool:
    return value is not None and not isinstance(value, bool)


def _equal_cells(first: _Row, second: _Row) -> int:
    return sum(one == other for one, other in zip(first.cells, second.cells, strict=True))
