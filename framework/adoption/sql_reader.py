"""The tables, functions and secrets that a SQL text names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from framework.adoption.needs import NeedKind
from framework.declare.sql_tokens import Token, TokenKind, UnclosedTextError, string_value, tokens

_NO_SCHEMAS = frozenset({"avro", "binaryfile", "csv", "delta", "json", "live", "orc", "parquet", "text", "xml"})
"""First parts of names that are no schema: formats of files, and the datasets of the pipeline itself."""
_OF_WORKSPACE = re.compile(r"ai_\w+|http_request|vector_search|remote_query", re.IGNORECASE)
_SECRETS = frozenset({"secret", "try_secret"})
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def sql_needs(text: str) -> Iterator[tuple[NeedKind, str, int]]:
    """Yield the kind, the name and the place of each table with a schema, function and secret in a SQL text.

    Names of one part belong to the pipeline, to common table expressions and to Spark's own functions, and are left
    out. Nothing is yielded for a text that is no SQL.

    Examples:
        >>> [(str(kind), name) for kind, name, _ in sql_needs("SELECT a.b.f(x), y.z FROM raw.orders JOIN own")]
        [('functions', 'a.b.f'), ('tables', 'raw.orders')]
    """
    try:
        found = [*tokens(text)]
    except UnclosedTextError:
        return
    place = 0
    while place < len(found):
        end = _end_of_name(found, place)
        if end == place:
            place += 1
            continue
        yield from _named(found, place, end)
        place = end


def relations(text: str) -> Iterator[str]:
    """Yield the names behind FROM and JOIN in a SQL text, of one part too; nothing for a text that is no SQL.

    Examples:
        >>> [*relations("SELECT * FROM raw.orders JOIN STREAM(own) USING (id)")]
        ['raw.orders', 'own']
    """
    try:
        found = [*tokens(text)]
    except UnclosedTextError:
        return
    for place in range(len(found)):
        end = _end_of_name(found, place)
        if end > place and _is_relation(found, place) and not found[place].is_word("STREAM"):
            yield ".".join(_plain(token) for token in found[place:end:2])


def _named(found: Sequence[Token], place: int, end: int) -> Iterator[tuple[NeedKind, str, int]]:
    parts = [_plain(token) for token in found[place:end:2]]
    name, start = ".".join(parts), found[place].start
    if end < len(found) and found[end].is_symbol("("):
        if name.lower() in _SECRETS:
            values = [string_value(token) for token in found[end + 1 : end + 4 : 2] if _is_string(token)]
            if len(values) == 2:
                yield NeedKind.SECRET, "/".join(values), start
        elif len(parts) > 1 or _OF_WORKSPACE.fullmatch(name):
            yield NeedKind.FUNCTION, name, start
    elif len(parts) > 1 and parts[0].lower() not in _NO_SCHEMAS and _is_relation(found, place):
        yield NeedKind.TABLE, name, start


def _is_relation(found: Sequence[Token], place: int) -> bool:
    """Whether a name stands where a table does: behind FROM or JOIN, also as a stream."""
    before = [token for token in found[max(0, place - 3) : place] if not token.is_symbol("(")]
    while before and before[-1].is_word("STREAM"):
        before.pop()
    return bool(before) and (before[-1].is_word("FROM") or before[-1].is_word("JOIN"))


def _end_of_name(found: Sequence[Token], place: int) -> int:
    """The place behind a name and its parts; the place itself if no name begins there."""
    if found[place].kind not in _NAMES:
        return place
    end = place + 1
    while end + 1 < len(found) and found[end].is_symbol(".") and found[end + 1].kind in _NAMES:
        end += 2
    return end


def _plain(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind is TokenKind.QUOTED else token.text


def _is_string(token: Token) -> bool:
    return token.kind is TokenKind.STRING
