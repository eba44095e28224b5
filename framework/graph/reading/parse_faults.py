"""Errors of Spark's parser about a rewritten SQL text, translated to the words and positions of the original text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import ParseException

from framework.engine.jvm.java_errors import printed_text, set_printed_text

_PLACE = re.compile(r"\(line (?P<line>\d+), pos (?P<column>\d+)\)\s*\n== SQL ==\n.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A replaced part of a text.

    Args:
        start: the offset of the part in the original text.
        written: the original part.
        shown: the replacement.
        words: the words for `shown` in an error.
    """

    start: int
    written: str
    shown: str
    words: str


@contextmanager
def written_by_user(written: str, parsed: str, replacements: Sequence[Replacement]) -> Iterator[None]:
    """Translate a ParseException of the block about the parsed text to one about the original text.

    Args:
        written: the text that the user wrote.
        parsed: the text that Spark parses: `written` with the replacements.
        replacements: in the order of the text.
    """

    def offset_of(offset: int) -> int:
        for each in replacements:
            if offset < each.start + len(each.shown):
                return min(offset, each.start)
            offset += len(each.written) - len(each.shown)
        return offset

    with _restated(written, parsed, offset_of, {each.shown.strip(): each.words for each in replacements}):
        yield


@contextmanager
def part_of(written: str, start: int, prefix: str, part: str) -> Iterator[None]:
    """Translate a ParseException of the block about a prefix and a part of a text to one about that text.

    Args:
        written: the text that the user wrote.
        start: the offset of the part in it.
        prefix: the text that Spark parses before the part.
        part: the part.
    """
    with _restated(written, prefix + part, lambda offset: max(0, offset - len(prefix)) + start, {}):
        yield


@contextmanager
def _restated(written: str, parsed: str, offset_of: Callable[[int], int], words: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except ParseException as error:
        text = printed_text(error)
        place = _PLACE.search(text)
        if place is not None:
            head = text[: place.start()]
            for shown, said in words.items():
                head = head.replace(shown, said)
            offset = offset_of(_offset(parsed, int(place["line"]), int(place["column"])))
            set_printed_text(error, head + _shown(written, offset))
        raise


def _offset(text: str, line: int, column: int) -> int:
    """Return the offset of a position: its line counts from 1, its column from 0."""
    return sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column


def _shown(text: str, offset: int) -> str:
    """Return the position of an offset and the text with a mark below it, as Spark prints them."""
    line, column = text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)
    lines = text.split("\n")
    shown = [*lines[: line + 1], f"{'-' * column}^^^", *lines[line + 1 :]]
    return f"(line {line + 1}, pos {column})\n\n== SQL ==\n" + "\n".join(shown)
