"""Estimates of text widths without a font.

Widths are those of a wide sans-serif font in thousandths of its size, so that a text fits into its box
with the viewer's font.
"""

from __future__ import annotations

import unicodedata

_NARROW = "ijl|!'.,:;`I "
_SLIM = 'frt()[]{}-/\\"*'
_WIDE = "mwMW@%—"
_WIDTHS = {**dict.fromkeys(_NARROW, 330), **dict.fromkeys(_SLIM, 430), **dict.fromkeys(_WIDE, 960)}
_CAPITAL = 720
_OTHER = 628
_FULL = 1_050


def text_width(text: str, size: float) -> float:
    """The width of a text at a font size, in the unit of the size."""
    return sum(_width(letter) for letter in text) * size / 1_000


def shorten(text: str, limit: int) -> str:
    """The text, with its middle replaced by an ellipsis if it has more than `limit` characters.

    Examples:
        >>> shorten("a_rather_long_name", 9)
        'a_ra…name'
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[-tail:]}"


def _width(letter: str) -> int:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.east_asian_width(letter) in "WF":
        return _FULL
    return _CAPITAL if letter.isupper() else _OTHER
