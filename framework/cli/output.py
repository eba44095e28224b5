"""Output of results to standard output: texts, tables and JSON.

Known secrets are hidden in all results except rows of data, which are printed as stored.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from framework.diagrams.text import table_text
from framework.foundation.secrets.known_secrets import hide_known, hide_known_values
from framework.foundation.wording import printable_lines
from framework.views.rows import RowsView, value_cell
from framework.views.table import Table

_LONGEST_VALUE_ON_TERMINAL = 60
_DEFAULT_WIDTH = 80
_STYLE = re.compile(r"(\x1b\[(?:0|1|2|22|3[0-7])m)")
"""The styles of the commands. Other escape sequences come from names and data, and are not passed to a terminal."""


def say(text: str) -> None:
    """Print a text that is not a result to standard error, formatted as by `Output.text`."""
    Output(stream=sys.stderr).text(text)


def colours_wanted(stream: TextIO) -> bool:
    """Return whether a stream gets colours: it is a terminal, NO_COLOR is not set, and TERM is not `dumb`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output stream and format of a command's result."""

    stream: TextIO
    as_json: bool = False

    def text(self, text: str) -> None:
        """Print a text, with colours only if the stream supports them, and with escaped control characters."""
        self._print(
            "".join(
                part if _STYLE.fullmatch(part) else printable_lines(part) for part in _STYLE.split(hide_known(text))
            )
        )

    def json(self, value: object) -> None:
        """Print a value as JSON; values without a JSON type are printed as text."""
        self._print(_json(hide_known_values(value)))

    def line(self, text: str) -> None:
        """Print a line and flush it."""
        self.text(text)
        self.stream.flush()

    def json_line(self, value: object) -> None:
        """Print a value as one line of JSON and flush it."""
        self._print(_json(hide_known_values(value), indent=None))
        self.stream.flush()

    def result(self, table: Table, value: object) -> None:
        """Print a result: its table, or its JSON value."""
        if self.as_json:
            self.json(value)
        else:
            self.text(self.formatted(table))

    def table(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print mappings as a table, or as a JSON list of objects that each have all columns."""
        cells = [[value_cell(row.get(column)) for column in columns] for row in rows]
        self.result(Table.of(columns, cells), [{column: row.get(column) for column in columns} for row in rows])

    def rows(self, rows: RowsView) -> None:
        """Print rows of data unchanged; on a terminal, each row is one line, and long values are cut."""
        if self.as_json:
            self._print(_json(rows.to_json()))
        else:
            longest = _LONGEST_VALUE_ON_TERMINAL if self.stream.isatty() else None
            self._print(table_text(rows.table(), longest=longest, colours=colours_wanted(self.stream)))

    def formatted(self, table: Table, *, heads: bool = True, indent: int = 0) -> str:
        """Format a table for the stream: wrapped to the width of a terminal, or else one line for each row."""
        width, colours = self._width(), colours_wanted(self.stream)
        return table_text(table, width=width, colours=colours, heads=heads, indent=indent)

    def _print(self, text: str) -> None:
        click.echo(text, file=self.stream, color=colours_wanted(self.stream))

    def _width(self) -> int | None:
        if not self.stream.isatty():
            return None
        columns = os.environ.get("COLUMNS", "")
        # A terminal without a size reports 0.
        if columns.isdecimal() and int(columns):
            return int(columns)
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or _DEFAULT_WIDTH
        except OSError:  # a stream without a file descriptor
            return _DEFAULT_WIDTH


def _json(value: object, *, indent: int | None = 2) -> str:
    """Return a value as JSON; terminal control characters are JSON escapes, which do not change the value."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    if text.isascii():  # JSON itself escapes all ASCII control characters except one
        return text.replace("\x7f", "\\u007f")
    return "".join(
        each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1].replace("\x7f", "\\u007f")
        for each in text
    )
