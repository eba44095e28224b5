"""Output of results on standard output: texts, tables and JSON."""

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
    """Return whether to use colours on a stream: it is a terminal, NO_COLOR is not set, and TERM is not `dumb`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Output stream and format of a command's result."""

    stream: TextIO
    as_json: bool = False

    def text(self, text: str) -> None:
        """Print a text, with its colours only if the stream supports them."""
        click.echo(text, file=self.stream, color=colours_wanted(self.stream))

    def json(self, value: object) -> None:
        """Print a value as JSON; a value without a JSON type is its text."""
        self.text(json.dumps(value, indent=2, ensure_ascii=False, default=str))

    def line(self, text: str) -> None:
        """Print a line and flush it."""
        self.text(text)
        self.stream.flush()

    def json_line(self, value: object) -> None:
        """Print a value as one line of JSON and flush it."""
        self.line(json.dumps(value, ensure_ascii=False, default=str))

    def table(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print rows, as a table or as a JSON list of objects, each with all columns."""
        if self.as_json:
            self.json([{column: row.get(column) for column in columns} for row in rows])
            return
        cells = [[row.get(column) for column in columns] for row in rows]
        widest = _WIDEST_CELL_ON_TERMINAL if self.stream.isatty() else None
        self.text(text_table(columns, cells, widest=widest))
