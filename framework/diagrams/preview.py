"""A preview of a table's rows, displayed in notebooks and at prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import NumericType

from framework.diagrams.escaping import escape
from framework.diagrams.layout import shorten
from framework.diagrams.page import fragment, html_table
from framework.diagrams.text import table_text
from framework.engine.plans.plans import java_frame
from framework.foundation.wording import counted
from framework.views.rows import RowsView
from framework.views.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_MOST_ROWS = 50
_MOST_COLUMNS = 50
_LONGEST_CELL = 80
_LONGEST_TEXT_CELL = 40


class Preview(ClassicDataFrame):
    """The first rows of a table: a DataFrame that collects its rows when it is displayed.

    Args:
        rows: the rows of the table.
        limit: the maximum number of rows.
        declared_keys: PRIMARY KEY and FOREIGN KEY of the table as declared; nothing checks them.
    """

    def __init__(self, rows: DataFrame, limit: int, declared_keys: tuple[str, ...] = ()) -> None:
        super().__init__(java_frame(rows.limit(limit)), rows.sparkSession)
        self._limit = limit
        self._declared_keys = declared_keys

    @property
    def declared_keys(self) -> tuple[str, ...]:
        """PRIMARY KEY and FOREIGN KEY of the table as declared."""
        return self._declared_keys

    def _repr_html_(self) -> str:
        summary = f'<span class="quiet">{escape(self._summary)}</span>'
        return fragment(f'<div class="rows">{html_table(self._table, is_data=True)}</div>', summary)

    def __repr__(self) -> str:
        return f"{table_text(self._table, longest=_LONGEST_TEXT_CELL)}\n{self._summary}"

    @property
    def _table(self) -> Table:
        """The displayed rows and columns; long values are shortened."""
        table = RowsView.of(self.columns, self._fetched[:_MOST_ROWS]).table()
        numeric = [isinstance(field.dataType, NumericType) for field in self.schema.fields]
        columns = [Column(name=name, right=right) for name, right in zip(self.columns, numeric, strict=True)]
        rows = [
            [replace(cell, text=shorten(cell.text, _LONGEST_CELL)) for cell in row[:_MOST_COLUMNS]]
            for row in table.rows
        ]
        return Table.of(columns[:_MOST_COLUMNS], rows)

    @cached_property
    def _fetched(self) -> list[Row]:
        return self.collect()

    @property
    def _summary(self) -> str:
        """The numbers of rows and columns, and of those that are not displayed."""
        count, width = len(self._fetched), len(self.columns)
        first = "the first " if count == self._limit else ""
        parts = [f"{first}{counted(count, 'row')}", counted(width, "column")]
        left_out = ((count - _MOST_ROWS, "row"), (width - _MOST_COLUMNS, "column"))
        hidden = [counted(more, noun) for more, noun in left_out if more > 0]
        return " · ".join([*parts, *([f"{' and '.join(hidden)} not shown"] if hidden else [])])
