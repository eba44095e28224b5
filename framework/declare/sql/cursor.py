"""A position in the tokens of a statement, with methods to read keywords, names, strings, and texts up to a clause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from framework.declare.sql_tokens import Token, TokenKind, string_value
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

Keywords = tuple[str, ...]

PARAMETER = re.compile(r"\$\{(?:(?:spark|sparkconf|hiveconf):)?([^{}]+)\}")
"""A parameter in a text, such as `${key}`."""

_OF_MACHINE = ("env:", "system:")
_CLOSING = {"(": ")", "[": "]"}


class Cursor:
    """Reads the tokens of a statement, or of a part in parentheses, from left to right.

    Args:
        file: the SQL file.
        text: the text with the tokens.
        line: the line of the file where the text begins.
        tokens: the tokens to read.
        place: the index of the first token to read.
    """

    def __init__(self, file: str, text: str, line: int, tokens: Sequence[Token], place: int = 0) -> None:
        self._file, self._text, self._line, self._tokens = file, text, line, tokens
        self._next = place

    @property
    def line(self) -> int:
        """The line in the file of the next token, or at the end of the last one."""
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        return self._line + self._text.count("\n", 0, token.start)

    @property
    def location(self) -> SourceLocation:
        """The location of the next token in the file."""
        return SourceLocation(file=self._file, line=self.line)

    def copy(self) -> Cursor:
        """Return a cursor at the same position."""
        return Cursor(self._file, self._text, self._line, self._tokens, self._next)

    def go_to(self, other: Cursor) -> None:
        """Move to the position of another cursor over the same tokens."""
        self._next = other._next

    def at_end(self) -> bool:
        """Whether all tokens are read."""
        return self._next == len(self._tokens)

    def is_at(self, *words: str) -> bool:
        """Whether these keywords or symbols are next."""
        following = self._tokens[self._next : self._next + len(words)]
        return len(following) == len(words) and all(map(Token.is_one, following, words))

    def accept(self, *words: str) -> bool:
        """Read these keywords if they are next; return whether they were."""
        found = self.is_at(*words)
        self._next += len(words) if found else 0
        return found

    def expect(self, *words: str) -> None:
        """Read these keywords.

        Raises:
            UserError: PARSE_SYNTAX_ERROR.
        """
        if not self.accept(*words):
            self.fail(" ".join(words))

    def is_at_symbol(self, symbol: str, *, after: int = 0) -> bool:
        """Whether this symbol is next, or follows after a number of other tokens."""
        place = self._next + after
        return place < len(self._tokens) and self._tokens[place].is_symbol(symbol)

    def is_at_string(self) -> bool:
        """Whether a string is next."""
        return not self.at_end() and self._tokens[self._next].kind is TokenKind.STRING

    def accept_symbol(self, symbol: str) -> bool:
        """Read this symbol if it is next; return whether it was."""
        found = self.is_at_symbol(symbol)
        self._next += found
        return found

    def parts(self) -> list[str]:
        """Read the parts of a name, such as ``a.`b c` ``, with their backticks."""
        parts = [self._part()]
        while self.accept_symbol("."):
            parts.append(self._part())
        return parts

    def name(self) -> str:
        """Read a name of one or more parts."""
        return ".".join(self.parts())

    def identifier(self) -> str:
        """Read a name of one part; without its backticks."""
        part = self._part()
        return part[1:-1].replace("``", "`") if part.startswith("`") else part

    def string(self) -> str:
        """Read a string; adjacent strings are one, as in Spark."""
        values = []
        while self.is_at_string():
            values.append(string_value(self._tokens[self._next]))
            self._next += 1
        if not values:
            self.fail("a string in quotes")
        value = "".join(values)
        self._check_string(value)
        return value

    def inside(self) -> Cursor:
        """Read a part in parentheses, and return a cursor over the tokens in it."""
        if not self.is_at_symbol("("):
            self.fail("`(`")
        first = self._next + 1
        self.skip()
        if self._next == first + 1:
            self._next = first
            self.fail("a list")
        return Cursor(self._file, self._text, self._line, self._tokens[first : self._next - 1])

    def items(self) -> list[Cursor]:
        """Return a cursor for each item between commas; commas in brackets of any kind do not separate items."""
        found, start, angles = [], self._next, 0
        while not self.at_end():
            token = self._tokens[self._next]
            angles += token.is_symbol("<") - token.is_symbol(">")
            if token.is_symbol(",") and angles <= 0:
                found.append(self._tokens[start : self._next])
                start = self._next + 1
            self.skip()
        found.append(self._tokens[start : self._next])
        if not all(found):
            self.fail("an item before each comma")
        return [Cursor(self._file, self._text, self._line, each) for each in found]

    def until(self, ends: Iterable[Keywords] = ()) -> str:
        """Read up to one of the given keyword sequences outside of brackets, or to the end, and return the text.

        Raises:
            UserError: PARSE_SYNTAX_ERROR if there is nothing before it.
        """
        read = self.part(ends)._tokens  # noqa: SLF001 - its own class
        return self._text[read[0].start : read[-1].end]

    def part(self, ends: Iterable[Keywords]) -> Cursor:
        """Read as `until` does, and return a cursor over the read tokens.

        Raises:
            UserError: PARSE_SYNTAX_ERROR if there is nothing before it.
        """
        start, ends = self._next, tuple(ends)
        while not self.at_end() and not any(self.is_at(*words) for words in ends):
            self.skip()
        if self._next == start:
            self.fail("an expression")
        return Cursor(self._file, self._text, self._line, self._tokens[start : self._next])

    def finish(self) -> None:
        """Check that all tokens are read.

        Raises:
            UserError: PARSE_SYNTAX_ERROR.
        """
        if not self.at_end():
            self.fail("the end")

    def fail(self, expected: str) -> NoReturn:
        """Raise the error of an unexpected token.

        Raises:
            UserError: PARSE_SYNTAX_ERROR, always.
        """
        near = "the end of the statement" if self.at_end() else f"`{self._tokens[self._next].text}`"
        raise UserError("PARSE_SYNTAX_ERROR", location=self.location, near=near, expected=expected)

    def refuse(self, statement: str, advice: str) -> NoReturn:
        """Raise the error, at the next token, of a statement or clause that Sluice does not support.

        Raises:
            UserError: PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR, always.
        """
        raise UserError(
            "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", location=self.location, statement=statement, advice=advice
        )

    def _check_string(self, text: str) -> None:
        """Refuse a string with an environment variable (`${env:HOME}`), which Spark replaces in queries only."""
        found = PARAMETER.search(text)
        if found is not None:
            raise UserError("SQL_PARAMETER_UNDEFINED", location=self.location, name=found[1])

    def check_parameters(self) -> None:
        """Refuse a parameter outside of comments, because Spark would replace it with nothing when the query runs.

        Environment variables (`${env:HOME}`) are allowed, because Spark replaces them.

        Raises:
            UserError: SQL_PARAMETER_UNDEFINED.
        """
        for found in PARAMETER.finditer(self._text):
            places = (n for n, token in enumerate(self._tokens) if token.start <= found.start() < token.end)
            place = next(places, None)
            if place is not None and not found[1].startswith(_OF_MACHINE):
                self._next = place
                raise UserError("SQL_PARAMETER_UNDEFINED", location=self.location, name=found[1])

    def _part(self) -> str:
        if self.at_end() or self._tokens[self._next].kind not in {TokenKind.WORD, TokenKind.QUOTED}:
            self.fail("a name")
        self._next += 1
        return self._tokens[self._next - 1].text

    def skip(self) -> None:
        """Read one token; for an opening bracket, all tokens up to the closing one."""
        closing: list[str] = []
        while True:
            if self.at_end():
                self.fail(f"`{closing[-1]}`")
            token = self._tokens[self._next]
            self._next += 1
            if token.kind is TokenKind.SYMBOL:
                if token.text in _CLOSING:
                    closing.append(_CLOSING[token.text])
                elif closing and token.text == closing[-1]:
                    closing.pop()
            if not closing:
                return
