"""Output of the rows of a DataFrame."""

from __future__ import annotations

from framework.cli.facade import Rows
from framework.cli.output import Output
from framework.diagrams.text_table import text_table
from framework.diagrams.values import cell_value, json_value

_WIDEST_CELL_ON_TERMINAL = 60


def print_rows(output: Output, rows: Rows) -> None:
    """Print rows as a table, or as a JSON list of objects, which keep the last of several columns with one name."""
    columns, values = rows.columns, [list(row) for row in rows.collect()]
    if output.as_json:
        output.json([dict(zip(columns, map(json_value, row), strict=True)) for row in values])
        return
    cells = [[cell_value(value) for value in row] for row in values]
    widest = _WIDEST_CELL_ON_TERMINAL if output.stream.isatty() else None
    output.text(text_table(columns, cells, widest=widest))
