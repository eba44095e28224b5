"""Results, on standard output: texts, tables and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from framework.diagrams.text_table import text_table

_WIDEST_CELL_ON_TERMINAL = 60


def colours_wanted(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: a terminal, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a command's result goes, and whether as JSON."""

    stream: TextIO
    as_json: bool = False

    def text(self, text: str) -> None:
        """Print a text, its colours only where they are wanted."""
        click.echo(text, file=self.stream, color=colours_wanted(self.stream))

    def json(self, value: object) -> None:
        """Print a value as JSON; a time is ISO 8601, a number that JSON has not is text."""
        self.text(json.dumps(value, indent=2, ensure_ascii=False, default=str))

    def line(self, text: str) -> None:
        """Print a line at once."""
        self.text(text)
        self.stream.flush()

    def json_line(self, value: object) -> None:
        """Print a value as one line of JSON, at once."""
        self.line(json.dumps(value, ensure_ascii=False, default=str))

    def table(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print rows, as a table or as a JSON list of objects, each with all columns."""
        if self.as_json:
            self.json([{column: row.get(column) for column in columns} for row in rows])
            return
        cells = [[row.get(column) for column in columns] for row in rows]
        widest = _WIDEST_CELL_ON_TERMINAL if self.stream.isatty() else None
        self.text(text_table(columns, cells, widest=widest))
