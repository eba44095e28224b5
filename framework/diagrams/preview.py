"""A preview of a table's rows, displayed in notebooks and at prompts."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import click
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import NumericType

from framework.diagrams.page import Cell, fragment, html_table
from framework.diagrams.text_table import text_table
from framework.diagrams.text_width import shorten
from framework.diagrams.values import cell_value
from framework.foundation.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_MOST_ROWS = 50
_MOST_COLUMNS = 50
_LONGEST_CELL = 80
_WIDEST_TEXT_CELL = 40
_CONTROL = {code: chr(0x2400 + code) for code in range(32)} | {127: "␡"}


class Preview(ClassicDataFrame):
    """The first rows of a table: a DataFrame that collects its rows when it is displayed.

    Args:
        rows: the rows of the table.
        limit: the maximum number of rows.
    """

    def __init__(self, rows: DataFrame, limit: int) -> None:
        super().__init__(rows.limit(limit)._jdf, rows.sparkSession)
        self._limit = limit

    def _repr_html_(self) -> str:
        shown = [[_html_cell(value) for value in row] for row in self._shown]
        numbers = [isinstance(field.dataType, NumericType) for field in self.schema.fields]
        cells = [
            tuple(_right(cell) if number else cell for cell, number in zip(row, numbers, strict=True))[:_MOST_COLUMNS]
            for row in shown
        ]
        table = html_table(self._heads, cells)
        return fragment(f'<div class="rows">{table}</div>', f'<span class="quiet">{escape(self._summary)}</span>')

    def __repr__(self) -> str:
        rows = [[cell_value(value) for value in row][:_MOST_COLUMNS] for row in self._shown]
        return f"{click.unstyle(text_table(self._heads, rows, widest=_WIDEST_TEXT_CELL))}\n{self._summary}"

    @cached_property
    def _fetched(self) -> list[Row]:
        return self.collect()

    @property
    def _shown(self) -> list[Row]:
        return self._fetched[:_MOST_ROWS]

    @property
    def _heads(self) -> list[str]:
        return self.columns[:_MOST_COLUMNS]

    @property
    def _summary(self) -> str:
        """The numbers of rows and columns, and of those that are not displayed."""
        count, width = len(self._fetched), len(self.columns)
        first = "the first " if count == self._limit else ""
        parts = [f"{first}{counted(count, 'row')}", counted(width, "column")]
        left_out = ((count - _MOST_ROWS, "row"), (width - _MOST_COLUMNS, "column"))
        hidden = [counted(more, noun) for more, noun in left_out if more > 0]
        return " · ".join([*parts, *([f"{' and '.join(hidden)} not shown"] if hidden else [])])


def _html_cell(value: object) -> Cell:
    """A value as text; null has another style than the text `null`, control characters are visible symbols."""
    if value is None:
        return Cell(text="null", look="quiet")
    found = cell_value(value)
    text = str(found).lower() if isinstance(found, bool) else str(found)
    return Cell(text=shorten(text.translate(_CONTROL), _LONGEST_CELL))


def _right(cell: Cell) -> Cell:
    return Cell(text=cell.text, look=f"number {cell.look}".strip())
