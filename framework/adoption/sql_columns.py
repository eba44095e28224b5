"""The columns that a SQL text names, with their relations as far as the text shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from framework.declare.sql_tokens import Token, TokenKind, UnclosedTextError, closing, string_value, tokens

_KEYWORDS = frozenset(
    """ALL AND ANTI ANY AS ASC BETWEEN BY CASE CAST CROSS CURRENT_DATE CURRENT_TIMESTAMP DELAY DESC DISTINCT ELSE END
    ESCAPE EXCEPT EXISTS FALSE FOLLOWING FROM FULL GROUP HAVING ILIKE IN INNER INTERSECT INTERVAL IS JOIN LATERAL LEFT
    LIKE LIMIT NATURAL NOT NULL NULLS OF OFFSET ON OR ORDER OUTER OVER PARTITION PRECEDING QUALIFY RIGHT RLIKE SELECT
    SEMI SORT STREAM THEN TRUE UNBOUNDED UNION USING VALUES WATERMARK WHEN WHERE WITH""".split()  # noqa: SIM905 - words
)
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation of a query.

    Args:
        name: its name, or a path.
        kind: the format of a path; None for a table.
        alias: the name by which the query refers to its columns.
        columns: the columns that the query names, in their order.
    """

    name: str
    kind: str | None
    alias: str
    columns: tuple[str, ...] = ()


def named_columns(text: str) -> list[str]:
    """Return the columns that an expression or a condition names, in their order.

    Examples:
        >>> named_columns("id IS NOT NULL AND lower(o.name) <> 'x' AND day >= DATE'2024-01-01'")
        ['id', 'name', 'day']
    """
    try:
        found = [*tokens(text)]
    except UnclosedTextError:
        return []
    return list(dict.fromkeys(column for _, column in _columns(found, set())))


def relations(text: str) -> list[Relation]:
    """Return the relations of a statement, each with the columns that the statement names of it.

    Names without an alias belong to the only relation; with several, only names with an alias and in USING count.

    Examples:
        >>> [(each.name, [*each.columns]) for each in relations(
        ...     "SELECT o.id, sum(o.n) AS n, c.country FROM raw.orders AS o JOIN customers c USING (customer)")]
        [('raw.orders', ['customer', 'id', 'n']), ('customers', ['customer', 'country'])]
    """
    try:
        found = [*tokens(text)]
    except UnclosedTextError:
        return []
    taken = set[int]()
    all_of_them = [*_relations(found, taken)]
    shared = [*_shared(found, taken)]
    columns = [dict.fromkeys(shared) for _ in all_of_them]
    owners = {
        name: place
        for place, each in enumerate(all_of_them)
        for name in (each.alias, each.name, each.name.rpartition(".")[2])
    }
    for qualifier, column in _columns(found, taken):
        owner = owners.get(qualifier or "", 0 if len(all_of_them) == 1 else None)
        if owner is not None:
            columns[owner][column] = None
    return [replace(each, columns=tuple(names)) for each, names in zip(all_of_them, columns, strict=True)]


def _relations(found: Sequence[Token], taken: set[int]) -> Iterator[Relation]:
    """Yield the relations behind FROM and JOIN, and mark their tokens as taken."""
    for place, token in enumerate(found):
        if not (token.is_word("FROM") or token.is_word("JOIN")):
            continue
        start = place + 1
        while start < len(found) and (found[start].is_word("STREAM") or found[start].is_symbol("(")):
            start += 1
        if start == len(found) or found[start].kind not in _NAMES or _is_keyword(found[start]):
            continue
        end = start + 1
        while end + 1 < len(found) and found[end].is_symbol(".") and found[end + 1].kind in _NAMES:
            end += 2
        parts = [_plain(each) for each in found[start:end:2]]
        name, alias = ".".join(parts), parts[-1]
        kind: str | None = None
        if found[start].text.lower() == "read_files" and end < len(found) and found[end].is_symbol("("):
            name, kind, end = _read_files(found, end)
        elif len(parts) == 2 and found[start + 2].kind is TokenKind.QUOTED and "/" in parts[1]:
            kind, name = parts
        after = end + (end < len(found) and found[end].is_word("AS"))
        if after < len(found) and found[after].kind in _NAMES and not _is_keyword(found[after]):
            alias, end = _plain(found[after]), after + 1
        taken.update(range(start, end))
        yield Relation(name=name, kind=kind, alias=alias)


def _read_files(found: Sequence[Token], start: int) -> tuple[str, str, int]:
    """Return the path and the format of a call of `read_files`, and the place behind it."""
    end = min(closing(found, start) + 1, len(found))
    given = found[start:end]
    path = next((string_value(each) for each in given if each.kind is TokenKind.STRING), "")
    named = (place for place, each in enumerate(given) if each.is_word("FORMAT"))
    after = next((each for place in named for each in given[place:] if each.kind is TokenKind.STRING), None)
    return path, "" if after is None else string_value(after), end


def _shared(found: Sequence[Token], taken: set[int]) -> Iterator[str]:
    """Yield the columns in `USING (…)`, and mark their tokens as taken."""
    for place, token in enumerate(found):
        if token.is_word("USING") and place + 1 < len(found) and found[place + 1].is_symbol("("):
            end = place + 2
            while end < len(found) and not found[end].is_symbol(")"):
                if found[end].kind in _NAMES:
                    taken.add(end)
                    yield _plain(found[end])
                end += 1


def _columns(found: Sequence[Token], taken: set[int]) -> Iterator[tuple[str | None, str]]:
    """Yield each column with the name before it; names that the text itself defines before it uses them are none."""
    defined, seen = set[str](), set[str]()
    for place, token in enumerate(found):
        if place in taken or token.kind not in _NAMES or _is_keyword(token):
            continue
        before = found[place - 1] if place else None
        name = _plain(token)
        if before is not None and before.is_word("AS"):
            defined |= {name} - seen
            continue
        qualifier = _plain(found[place - 2]) if place > 1 and before is not None and before.is_symbol(".") else None
        if _is_column(found, place) and (qualifier is not None or name not in defined):
            seen.add(name)
            yield qualifier, name


def _is_column(found: Sequence[Token], place: int) -> bool:
    """Whether a name is no function, no qualifier, no type, no unit of an interval and no prefix of a literal."""
    before = found[place - 1] if place else None
    after = found[place + 1] if place + 1 < len(found) else None
    if after is not None and (after.is_symbol("(") or after.is_symbol(".") or after.kind is TokenKind.STRING):
        return False
    if before is None:
        return True
    is_unit = before.kind is TokenKind.STRING or (before.kind is TokenKind.WORD and not before.text[0].isalpha())
    return not (is_unit or before.is_symbol(":"))


def _is_keyword(token: Token) -> bool:
    return token.kind is TokenKind.WORD and (token.text.upper() in _KEYWORDS or not token.text[0].isalpha())


def _plain(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind is TokenKind.QUOTED else token.text
