"""PostgreSQL's text of an array, as its elements."""

from __future__ import annotations

import re

_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"]+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class ArrayShapeError(ValueError):
    """An array has more than one dimension, or a lower bound other than 1."""


def parse_array(text: str) -> list[str | None]:
    r"""Return the elements of an array of one dimension; None for NULL.

    The server quotes each element that is empty, reads NULL, or contains a brace, a comma, a quote, a backslash or
    white space; so an unquoted brace or bracket at the start is a dimension.

    Raises:
        ArrayShapeError: the array has more dimensions or another lower bound.

    Examples:
        >>> parse_array('{1,NULL,"a,\\"b\\"",""}'), parse_array("{}")
        (['1', None, 'a,"b"', ''], [])
    """
    if text[0] != "{" or text[1] == "{":
        raise ArrayShapeError(text)
    if text == "{}":
        return []
    if '"' not in text:
        return [None if element == "NULL" else element for element in text[1:-1].split(",")]
    return [_element(match) for match in _ELEMENT.finditer(text, 1, len(text) - 1)]


def _element(match: re.Match[str]) -> str | None:
    quoted, plain = match.groups()
    if quoted is None:
        return None if plain == "NULL" else str(plain)
    return _ESCAPE.sub(r"\1", quoted) if "\\" in quoted else str(quoted)
