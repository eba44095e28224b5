"""Tokens of a SQL text with their positions, to find statements, clauses and names. Spark parses the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class TokenKind(StrEnum):
    """The kind of a token. Comments and spaces are no tokens."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of a text: `text[start:end]`."""

    kind: TokenKind
    text: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        """Whether it is a keyword; `word` is in upper case."""
        return self.kind is TokenKind.WORD and self.text.upper() == word

    def is_one(self, text: str) -> bool:
        """Whether it is a keyword or symbol with this text."""
        return self.is_word(text) or self.is_symbol(text)

    def is_symbol(self, symbol: str) -> bool:
        """Whether it is a symbol of one character."""
        return self.kind is TokenKind.SYMBOL and self.text == symbol


class UnclosedTextError(Exception):
    """A string, a quoted name or a comment without an end.

    Args:
        start: its position.
        kind: the kind of the unclosed text.
    """

    def __init__(self, start: int, kind: str) -> None:
        super().__init__(kind)
        self.start, self.kind = start, kind


_SPACE = re.compile(r"(?:\s+|--[^\n]*)+")
_COMMENT = re.compile(r"/\*|\*/")
_BODY = r"\$\$.*?\$\$"
"""The body of a Python function."""
_STRING = rf"""(?:{_BODY}|[rR](?:'[^']*'|"[^"]*")|'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")"""
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<quoted>`(?:``|[^`])*`)|(?P<word>\w+)|(?P<unclosed>['\"`]|\$\$)|(?P<symbol>.)",
    re.DOTALL,
)
_UNCLOSED = {"'": "string", '"': "string", "`": "quoted name", "$$": "body of a function"}
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))|(''|\"\")", re.DOTALL)


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text in order.

    Raises:
        UnclosedTextError: a string, a quoted name or a comment has no end.
    """
    place = 0
    while True:
        place = _after_comments(text, place)
        match = _TOKEN.match(text, place)
        if match is None:
            return
        kind = str(match.lastgroup)
        if kind == "unclosed":
            raise UnclosedTextError(place, _UNCLOSED[match[0]])
        yield Token(kind=TokenKind(kind), text=match[0], start=place, end=match.end())
        place = match.end()


def statements(text: str) -> Iterator[tuple[Token, ...]]:
    """Yield the tokens of each statement, without the semicolons between them; skip empty statements.

    Raises:
        UnclosedTextError: as for `tokens`.
    """
    found: list[Token] = []
    for token in tokens(text):
        if not token.is_symbol(";"):
            found.append(token)
        elif found:
            yield tuple(found)
            found = []
    if found:
        yield tuple(found)


def closing(found: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at an index; the number of tokens if none does.

    Examples:
        >>> [closing([*tokens("f(a, (b)) c")], 1), closing([*tokens("f(a")], 1)]
        [7, 3]
    """
    depth = 0
    for place in range(opening, len(found)):
        depth += found[place].is_symbol("(") - found[place].is_symbol(")")
        if depth == 0:
            return place
    return len(found)


def string_value(token: Token) -> str:
    r"""Return the value of a string literal, as Spark reads it.

    Examples:
        >>> [string_value(each) for each in tokens(r"'it''s' 'a\tb' r'a\tb' '\u00e9'")]
        ["it's", 'a\tb', 'a\\tb', 'é']
    """
    if token.text[0] == "$":
        return token.text[2:-2]
    if token.text[0] in "rR":
        return token.text[2:-1]
    return _ESCAPE.sub(partial(_unescaped, token.text[0]), token.text[1:-1])


def _unescaped(quote: str, match: re.Match[str]) -> str:
    if match[5] is not None:
        return quote if match[5] == 2 * quote else match[5]
    code = match[1] or match[2]
    if code is not None:
        return chr(int(code, 16))
    if match[3] is not None:
        return chr(int(match[3], 8))
    return _ESCAPES.get(match[4], match[4])


def _after_comments(text: str, place: int) -> int:
    """Return the position of the next token, or the end; `/* */` comments may be nested."""
    while True:
        found = _SPACE.match(text, place)
        place = place if found is None else found.end()
        if not text.startswith("/*", place):
            return place
        start, depth = place, 0
        while depth or place == start:
            mark = _COMMENT.search(text, place)
            if mark is None:
                raise UnclosedTextError(start, "comment")
            depth += 1 if mark[0] == "/*" else -1
            place = mark.end()
