"""A table as a value: columns and cells, independent of the output format."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Tone(StrEnum):
    """The emphasis of a cell, shown as a colour on a terminal and as a CSS class in a page."""

    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The text of a cell, and its emphasis; None for normal text."""

    text: str
    tone: Tone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, whether it is right-aligned, and whether its cells may have several lines."""

    name: str
    right: bool = False
    wraps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and rows; each row has one cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Iterable[Column | str], rows: Iterable[Sequence[Cell | str]]) -> Table:
        """Create a table; a plain text becomes a column or a cell with default properties."""
        return cls(
            columns=tuple(Column(name=column) if isinstance(column, str) else column for column in columns),
            rows=tuple(tuple(Cell(text=cell) if isinstance(cell, str) else cell for cell in row) for row in rows),
        )

    def without_empty_columns(self) -> Table:
        """Return the table without empty columns."""
        return self._select([index for index in range(len(self.columns)) if any(row[index].text for row in self.rows)])

    def select(self, names: Collection[str]) -> Table:
        """Return the table with only these columns, in the order of the table."""
        return self._select([index for index, column in enumerate(self.columns) if column.name in names])

    def _select(self, indexes: Sequence[int]) -> Table:
        return replace(
            self,
            columns=tuple(self.columns[index] for index in indexes),
            rows=tuple(tuple(row[index] for index in indexes) for row in self.rows),
        )
