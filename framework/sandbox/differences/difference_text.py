"""The printed difference: one line a row, with the cells that differ as `expected -> found`."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from enum import StrEnum

from pyspark.sql.types import NumericType

from framework.foundation.wording import counted
from framework.sandbox.differences.cell_texts import cell_text, contrasted, shortened
from framework.sandbox.differences.row_difference import LoneRow, RowDifference, RowPair
from framework.sandbox.values.misfits import Misfit

_WIDTHS = (48, 40, 32, 26, 20, 16)
"""The widths of a text in a cell that are tried, until the table fits."""

_LIST_WIDTH = 60
_ARROW = " -> "


class _Colour(StrEnum):
    """Codes of terminals."""

    MISSING = "\x1b[31m"
    UNEXPECTED = "\x1b[32m"
    QUIET = "\x1b[2m"
    STRONG = "\x1b[1m"
    END = "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """The text of a cell; `found` is None unless the row was found with another value."""

    text: str
    found: str | None = None

    @property
    def width(self) -> int:
        return len(self.text) + (0 if self.found is None else len(_ARROW) + len(self.found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A row: its mark (`~` other values, `-` missing, `+` unexpected), its cells, and a note behind them."""

    mark: str
    cells: tuple[_Cell, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFormat:
    """How differences are printed.

    Args:
        width: the number of characters in a line.
        rows: the number of rows that are printed.
        colour: whether to use colours of terminals.
        zone: the zone in which points in time are written.
    """

    width: int = 120
    rows: int = 20
    colour: bool = False
    zone: tzinfo = UTC

    def text(self, title: str, difference: RowDifference) -> str:
        """Return the difference as text.

        Args:
            title: what is compared, for the first line.
            difference: the difference.
        """
        shown = _shown(difference, self.rows)
        table = next((lines for width in _WIDTHS if (lines := self._table(difference, shown, width))), None)
        body = table or list(self._list(difference, shown))
        parts = [_summary(title, difference), "", *body, *_more(difference, shown), "", *_notes(difference)]
        return "\n".join([*parts, self._legend(shown)]).rstrip()

    def _table(self, difference: RowDifference, shown: RowDifference, width: int) -> list[str] | None:
        """Return the rows as an aligned table; None if it is wider than a line."""
        fields = difference.schema.fields
        lines = [self._line(shown, each, width) for each in _rows(shown)]
        widths = [
            max(len(_header(field.name, width)), *(line.cells[number].width for line in lines))
            for number, field in enumerate(fields)
        ]
        notes = max((len(line.note) for line in lines), default=0)
        if 4 + sum(widths) + 3 * (len(widths) - 1) + notes > self.width or not widths:
            return None
        right = [
            isinstance(field.dataType, NumericType) and not any(line.cells[number].found for line in lines)
            for number, field in enumerate(fields)
        ]
        names = [_header(field.name, width) for field in fields]
        header = " | ".join(map(_aligned, names, names, widths, right))
        rows = [self._row(line, widths, right) for line in lines]
        return [f"    {self._coloured(header.rstrip(), _Colour.STRONG)}", *rows]

    def _line(self, shown: RowDifference, row: RowPair | LoneRow, width: int) -> _Line:
        fields = shown.schema.fields
        if isinstance(row, LoneRow):
            cells = tuple(
                _Cell(text=shortened(cell_text(value, field.dataType, self.zone), width))
                for value, field in zip(row.values, fields, strict=True)
            )
            return _Line(mark="-" if row.expected > row.found else "+", cells=cells, note=_times(row))
        found = []
        for number, (field, first, second) in enumerate(zip(fields, row.expected, row.found, strict=True)):
            if number in row.columns:
                one, other = contrasted(first, second, field.dataType, self.zone, width)
                found.append(_Cell(text=one, found=other))
            else:
                found.append(_Cell(text=shortened(cell_text(second, field.dataType, self.zone), width)))
        return _Line(mark="~", cells=tuple(found), note="" if row.place is None else f"   place {row.place}")

    def _row(self, line: _Line, widths: Sequence[int], right: Sequence[bool]) -> str:
        cells = [
            _aligned(self._cell(line.mark, cell), " " * cell.width, width, is_right)
            for cell, width, is_right in zip(line.cells, widths, right, strict=True)
        ]
        return f"  {self._marked(line.mark)} {' | '.join(cells)}{line.note}".rstrip()

    def _cell(self, mark: str, cell: _Cell) -> str:
        if cell.found is not None:
            found = self._coloured(cell.found, _Colour.UNEXPECTED)
            return f"{self._coloured(cell.text, _Colour.MISSING)}{_ARROW}{found}"
        colours = {"-": _Colour.MISSING, "+": _Colour.UNEXPECTED}
        return self._coloured(cell.text, colours.get(mark, _Colour.QUIET))

    def _marked(self, mark: str) -> str:
        colours = {"-": _Colour.MISSING, "+": _Colour.UNEXPECTED}
        return self._coloured(mark, colours.get(mark, _Colour.STRONG))

    def _coloured(self, text: str, colour: _Colour) -> str:
        return f"{colour}{text}{_Colour.END}" if self.colour and text else text

    def _list(self, difference: RowDifference, shown: RowDifference) -> Iterator[str]:
        """Yield the rows one below the other: of each only what differs, and what identifies it."""
        names = difference.schema.fieldNames()
        for row in _rows(shown):
            line = self._line(shown, row, _LIST_WIDTH)
            places = _identifying(difference, row)
            cells = [f"{names[number]} = {line.cells[number].text}" for number in places]
            lines = textwrap.wrap(", ".join(cells) + line.note, self.width - 4) or [""]
            yield f"  {self._marked(line.mark)} {lines[0]}"
            yield from (f"    {each}" for each in lines[1:])
            for number in row.columns if isinstance(row, RowPair) else ():
                yield f"      {shortened(names[number], _LIST_WIDTH)}: {self._cell('~', line.cells[number])}"

    def _legend(self, shown: RowDifference) -> str:
        parts = [
            ("~", "expected -> found", shown.pairs or shown.moved),
            ("-", "expected, not found", shown.missing),
            ("+", "found, not expected", shown.unexpected),
        ]
        return "  " + "   ".join(f"{self._marked(mark)} {words}" for mark, words, rows in parts if rows)


def _aligned(text: str, plain: str, width: int, is_right: bool) -> str:  # noqa: FBT001 - called by `map`
    """Return a text with spaces before or behind it; `plain` is as long as what one sees of it."""
    gap = " " * (width - len(plain))
    return gap + text if is_right else text + gap


def _summary(title: str, difference: RowDifference) -> str:
    counts = f"{counted(difference.expected, 'row')} expected, {difference.found:,} found"
    if difference.moved:
        return f"{title} has the expected rows in another order ({counts})."
    parts = [
        (len(difference.pairs), "with other values"),
        (sum(row.count for row in difference.missing), "missing"),
        (sum(row.count for row in difference.unexpected), "unexpected"),
    ]
    words = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    return f"{title} has other rows than expected: {words} ({counts})."


def _shown(difference: RowDifference, rows: int) -> RowDifference:
    """Return the difference with at most so many rows, some of each kind."""
    kinds = (difference.pairs, difference.missing, difference.unexpected)
    turns = [(turn, number) for number, kind in enumerate(kinds) for turn in range(min(len(kind), rows))]
    limits = Counter(number for _, number in sorted(turns)[:rows])
    return replace(
        difference,
        pairs=difference.pairs[: limits[0]],
        missing=difference.missing[: limits[1]],
        unexpected=difference.unexpected[: limits[2]],
        moved=difference.moved[:rows],
    )


def _rows(difference: RowDifference) -> tuple[RowPair | LoneRow, ...]:
    return (*difference.moved, *difference.pairs, *difference.missing, *difference.unexpected)


def _more(difference: RowDifference, shown: RowDifference) -> list[str]:
    more = len(_rows(difference)) - len(_rows(shown))
    return [f"    … and {more:,} more"] if more else []


def _notes(difference: RowDifference) -> list[str]:
    """Return why expected values do not fit their columns, once for each column."""
    found: dict[str, str] = {}
    values = [*(pair.expected for pair in difference.pairs), *(row.values for row in difference.missing)]
    for row in values:
        for field, value in zip(difference.schema.fields, row, strict=True):
            if isinstance(value, Misfit):
                found.setdefault(field.name, f"  {field.name} is {field.dataType.simpleString()}: {value.cause}")
    return list(found.values())


def _times(row: LoneRow) -> str:
    if row.is_single:
        return ""
    return f"   found {counted(row.found, 'time')}, expected {row.expected:,}"


def _header(name: str, width: int) -> str:
    return shortened(name, max(width, 14))


def _identifying(difference: RowDifference, row: RowPair | LoneRow) -> Sequence[int]:
    """Return the columns that name a row in a list: its keys, or those that are as expected; all of a lone row."""
    names = difference.schema.fieldNames()
    if isinstance(row, LoneRow):
        return range(len(names))
    equal = [number for number in range(len(names)) if number not in row.columns]
    return [number for number in equal if names[number] in difference.keys] or equal[:3]
