"""Conditions of a source database that Spark evaluates in the same way."""

from __future__ import annotations

import re

from framework.declare.copy_definition import CopiedColumn, CopyDefinition

_LITERAL = re.compile(r"'[^'\\$]*'|-?\d+(?:\.\d+)?")
_COMPARISON = re.compile(
    r"\b(?P<column>[A-Za-z_]\w*)\s*"
    r"(?:(?:<>|!=|<=|>=|=|<|>)\s*(?:LITERAL)(?![\w.:])"
    r"|(?:NOT\s+)?IN\s*\(\s*(?:LITERAL)(?:\s*,\s*(?:LITERAL))*\s*\)"
    r"|(?:NOT\s+)?BETWEEN\s+(?:LITERAL)\s+AND\s+(?:LITERAL)(?![\w.:])"
    r"|IS\s+(?:NOT\s+)?NULL\b)".replace("LITERAL", _LITERAL.pattern),
    re.IGNORECASE,
)
_CHECKED = "\0"
_CONNECTED = re.compile(rf"(?:[\s(){_CHECKED}]|\bAND\b|\bOR\b|\bNOT\b)*", re.IGNORECASE)
_KINDS = (
    (re.compile(r"smallint|integer|bigint"), re.compile(r"-?\d{1,18}")),
    (re.compile(r"date"), re.compile(r"'\d{4}-\d\d-\d\d'")),
)
"""Types of columns, with the literals of which every comparison is the same."""


def condition_in_spark(where: str, definition: CopyDefinition | None) -> str:
    """Return a condition in Spark SQL for at least the rows of a copy that a condition of the database selects.

    Both dialects give many texts another meaning: `"a" = 'x'`, `id / 10 = 2`, `flag = 'on'`, and any comparison of
    decimals (Spark rounds what has more than 38 digits), of texts (the collation may find two of them equal) or of
    times with a zone. So only comparisons of whole numbers and dates with literals of their type are taken. Any other
    condition gives `true`.

    Args:
        where: a condition that the database accepts.
        definition: how the rows of the copy are made; None if that is unknown.
    """
    columns = {} if definition is None else {column.name: column for column in definition.columns}

    def checked(match: re.Match[str]) -> str:
        column = columns.get(match["column"].lower())
        return _CHECKED if column is not None and _is_alike(column, match) else match[0]

    return where if _CONNECTED.fullmatch(_COMPARISON.sub(checked, where)) else "true"


def _is_alike(column: CopiedColumn, comparison: re.Match[str]) -> bool:
    literals = _LITERAL.findall(comparison[0], comparison.end("column") - comparison.start())
    known = (literal for kind, literal in _KINDS if kind.fullmatch(column.source_type) and column.type != "STRING")
    literal = next(known, None)
    return literal is not None and all(map(literal.fullmatch, literals))
