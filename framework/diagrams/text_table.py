"""Tables as aligned text, for terminals and files."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class Coloured:
    """A cell with a colour; None for the terminal's default."""

    text: str
    colour: str | None = None

    def __str__(self) -> str:
        """The text alone."""
        return self.text


def text_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    widest: int | None = None,
    right: Collection[str] = (),
) -> str:
    """Format rows below column heads and a rule; null is `null`.

    Args:
        columns: the column heads.
        rows: values of any type.
        widest: the maximum number of characters of a cell, truncated with an ellipsis; None for no limit.
        right: columns to align to the right in addition to numeric ones.
    """
    cells = [[_cell(value, widest) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]
    to_right = [name in right or _is_numeric([row[index] for row in rows]) for index, name in enumerate(columns)]
    lines = [
        click.style(_line([_pad(*cell) for cell in zip(columns, widths, to_right, strict=True)]), bold=True),
        click.style(_line(["─" * width for width in widths]), dim=True),
    ]
    for row, texts in zip(rows, cells, strict=True):
        padded = [_pad(*cell) for cell in zip(texts, widths, to_right, strict=True)]
        lines.append(_line([_coloured(value, text) for value, text in zip(row, padded, strict=True)]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "  ".join(cells).rstrip()


def _pad(text: str, width: int, to_right: bool) -> str:  # noqa: FBT001 - called with an unpacked tuple
    space = " " * (width - _width(text))
    return space + text if to_right else text + space


def _coloured(value: object, text: str) -> str:
    return click.style(text, fg=value.colour) if isinstance(value, Coloured) and value.colour else text


def _cell(value: object, widest: int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = "".join(letter if letter.isprintable() else _visible(letter) for letter in text)
    return text if widest is None or len(text) <= widest else text[: widest - 1] + "…"


def _visible(letter: str) -> str:
    """A control character as its escape, so that data can neither break lines nor control the terminal."""
    return letter.encode("unicode_escape").decode("ascii")


def _width(text: str) -> int:
    """The number of terminal columns of a text."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _is_numeric(values: Sequence[object]) -> bool:
    """Whether there is at least one number and all other values are numbers or null."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)
