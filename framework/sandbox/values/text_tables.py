"""Text tables: rows as an engineer writes them in a test, one a line, with `|` between the cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.wording import counted

_COMMENT = re.compile(r"(?:^|\s)#.*")
_RULE = re.compile(r"[+|:\s-]*--[+|:\s-]*")
"""The lines of `DataFrame.show()` and Markdown between the header and the rows."""

_QUOTED = re.compile(r"\s*(?P<quote>['\"])(?P<text>(?:(?!(?P=quote)).|(?P=quote){2})*)(?P=quote)\s*(?=\||(?:#.*)?$)")
_PLAIN = re.compile(r"[^|]*")


class TextCell(str):
    """The text of a cell whose type its column decides; a text in quotes is a plain `str`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow:
    """The cells of one line; NULL is None.

    Args:
        line: the number of the line in the text, from 1.
    """

    line: int
    cells: tuple[str | None, ...]


def parse_text_table(text: str) -> tuple[tuple[str, ...], tuple[TextRow, ...]]:
    r"""Return the columns of a text table and its rows.

    The first line has the names of the columns. Blank lines are skipped, as is `#` with what follows it, at the begin
    of a line or after a space. A blank cell and `NULL` are NULL. A text in single or double quotes is kept as it is; a
    quote in it is written twice. Lines may begin and end with `|`, as in Markdown, if the header does. Lines of
    dashes, as `DataFrame.show()` prints them, are skipped.

    Raises:
        UserError: TEST_ROW_TEXT_INVALID.

    Examples:
        >>> columns, rows = parse_text_table("id | name\n1 | Ada  # the first\n  | 'a | b'")
        >>> columns, [row.cells for row in rows]
        (('id', 'name'), [('1', 'Ada'), (None, 'a | b')])
    """
    lines = list(_lines(text))
    if not lines:
        raise _invalid(1, "it has no header.")
    number, header = lines[0]
    has_borders = header.startswith("|") and header.endswith("|") and len(header) > 1
    columns = tuple(cell or "" for cell in _cells(number, header, has_borders=has_borders))
    if not all(columns):
        raise _invalid(number, "a column has no name.")
    rows = [TextRow(line=line, cells=tuple(_cells(line, row, has_borders=has_borders))) for line, row in lines[1:]]
    for row in rows:
        if len(row.cells) != len(columns):
            raise _invalid(row.line, f"it has {counted(len(row.cells), 'cell')}, the header has {len(columns)}.")
    return columns, tuple(rows)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that have cells, with their numbers."""
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#") and not _RULE.fullmatch(stripped):
            yield number, stripped


def _cells(number: int, line: str, *, has_borders: bool) -> Iterator[TextCell | str | None]:
    """Yield the cells of a line; its comment is left out."""
    place, end = (1 if has_borders and line.startswith("|") else 0), len(line)
    while True:
        cell, place = _cell(number, line, place)
        is_last = place == end
        if not is_last:
            place += 1  # the separator
        yield cell
        if is_last or (has_borders and not _COMMENT.sub("", line[place:]).strip()):
            return


def _cell(number: int, line: str, place: int) -> tuple[TextCell | str | None, int]:
    """Return the cell that begins at a place of a line, and where it ends: at a separator or at the end of the line."""
    quoted = _QUOTED.match(line, place)
    if quoted:
        ends_line = line[quoted.end() : quoted.end() + 1] != "|"
        quote = quoted["quote"]
        return quoted["text"].replace(quote * 2, quote), len(line) if ends_line else quoted.end()
    plain = _PLAIN.match(line, place)
    assert plain is not None  # it matches nothing, too
    end, text = plain.end(), plain[0]
    comment = _COMMENT.search(text)
    if comment:
        end, text = len(line), text[: comment.start()]
    text = text.strip()
    if text[:1] in {"'", '"'}:
        raise _invalid(number, f"the quotes of {text} do not end with the cell.")
    return (None if text in {"", "NULL"} else TextCell(text)), end


def _invalid(number: int, cause: str) -> UserError:
    place: Any = f"Line {number}"
    return UserError("TEST_ROW_TEXT_INVALID", place=place, cause=cause)
