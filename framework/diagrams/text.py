"""Tables as aligned text, for terminals, files and prompts.

Rich measures the texts, but its `Table` does not lay them out: it takes a millisecond for each row, and an event log
may have a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from framework.foundation.wording import printable
from framework.views.table import Cell, Column, Table, Tone

_COLOURS = {Tone.GOOD: "green", Tone.BAD: "red", Tone.WARNING: "yellow"}
_GAP = "  "


def table_text(
    table: Table,
    *,
    width: int | None = None,
    longest: int | None = None,
    colours: bool = False,
    heads: bool = True,
    indent: int = 0,
) -> str:
    """Format a table.

    Args:
        table: columns and rows.
        width: columns of the terminal, to which texts are wrapped; None for one line for each row. A table whose
            longest words need more columns is wider.
        longest: the maximum number of characters of a cell, cut with an ellipsis; None for no limit.
        colours: whether to emit colours.
        heads: whether to print the names of the columns and a rule below them.
        indent: the number of spaces before each line.
    """
    rows = [[_cut(cell, longest) for cell in row] for row in table.rows]
    names = [Cell(text=printable(column.name)) for column in table.columns]
    room = None if width is None else width - indent
    widths = _widths(table.columns, [names, *rows] if heads else rows, room)
    lines: list[str] = []
    if heads:
        rule = [Cell(text="─" * size, tone=Tone.QUIET) for size in widths]
        lines += _row_lines(names, table.columns, widths, colours=colours, bold=True)
        lines += _row_lines(rule, table.columns, widths, colours=colours)
    for row in rows:
        lines += _row_lines(row, table.columns, widths, colours=colours)
    return "\n".join(" " * indent + line for line in lines)


def _cut(cell: Cell, longest: int | None) -> Cell:
    """Return the cell with its control characters as escapes, at most `longest` characters long."""
    text = printable(cell.text)
    return replace(cell, text=text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…")


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int | None) -> list[int]:
    """Return the width of each column; columns that wrap become narrower, the widest first, until the table fits."""
    # Rich is imported here, because most commands print no table.
    from rich.cells import cell_len

    widths = [max((cell_len(row[index].text) for row in rows), default=0) for index in range(len(columns))]
    if room is None:
        return widths
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    least = [
        max((cell_len(word) for row in rows for word in row[index].text.split()), default=0)
        if excess > 0 and column.wraps and not column.right
        else widths[index]
        for index, column in enumerate(columns)
    ]
    while excess > 0 and (wider := [index for index, size in enumerate(widths) if size > least[index]]):
        widths[max(wider, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def _row_lines(
    cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], *, colours: bool, bold: bool = False
) -> Iterator[str]:
    wrapped = [_wrap(cell.text, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, wrapped), default=0)):
        parts = []
        for cell, lines, column, width in zip(cells, wrapped, columns, widths, strict=True):
            text = _pad(lines[number] if number < len(lines) else "", width, to_right=column.right)
            parts.append(_styled(text, cell.tone, bold=bold) if colours else text)
        yield _GAP.join(parts).rstrip()


def _wrap(text: str, width: int) -> list[str]:
    """Divide a text between words into lines of at most `width` columns."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _pad(text: str, width: int, *, to_right: bool) -> str:
    from rich.cells import cell_len

    space = " " * (width - cell_len(text))
    return space + text if to_right else text + space


def _styled(text: str, tone: Tone | None, *, bold: bool) -> str:
    if not text.strip() or not (tone or bold):
        return text
    return click.style(text, fg=_COLOURS.get(tone) if tone else None, dim=tone is Tone.QUIET or None, bold=bold or None)
