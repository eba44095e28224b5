"""Columns, conditions and windows of the stand-in's SQL.

A column is a field (`origin.update_id`), a path into a JSON text (`details:flow_progress.status`), or
`MIN(column) OVER (PARTITION BY columns) AS name`. A condition is `column = value` or `column IN (values)`; conditions
are joined by AND.
`QUALIFY ROW_NUMBER() OVER (PARTITION BY columns ORDER BY terms) = 1` keeps the first row of each partition; a term is a
column or an equality, ascending or `DESC`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Values = Mapping[str, str | None]

_LEAST = re.compile(r"^MIN\((?P<column>\S+)\) OVER \(PARTITION BY (?P<by>.+)\) AS (?P<name>\w+)$", re.IGNORECASE)
_FIRST = re.compile(r"^ROW_NUMBER\(\) OVER \(PARTITION BY (?P<by>.+?) ORDER BY (?P<order>.+)\) = 1$", re.IGNORECASE)
_EQUALITY = re.compile(r"^(?P<column>\S+) = (?P<value>\S+)$")


def select_columns(rows: Sequence[Row], columns: str) -> tuple[list[str], list[list[str | None]]]:
    """Return the names of the columns and their values in each row, as texts."""
    names, found = [], []
    for column in _split(columns):
        least = _LEAST.match(column)
        names.append(column if least is None else least["name"])
        found.append([text_of(_field(row, column)) for row in rows] if least is None else _least(rows, least))
    return names, [list(values) for values in zip(*found, strict=True)]


def newest_rows(rows: Sequence[Row], qualify: str, values: Values) -> list[int]:
    """Return the positions of the rows that a QUALIFY clause keeps.

    Raises:
        SyntaxError: it is of another form.
    """
    match = _FIRST.match(qualify)
    if match is None:
        raise SyntaxError(f"[PARSE_SYNTAX_ERROR] {qualify}")
    terms = [_term(text, values) for text in _split(match["order"])]

    by = _split(match["by"])
    first: dict[tuple[str | None, ...], tuple[int, list[Any]]] = {}
    for number, row in enumerate(rows):
        partition = tuple(text_of(_field(row, column)) for column in by)
        keys = [key_of(row) for _, key_of in terms]
        if partition not in first or _is_before(keys, first[partition][1], terms):
            first[partition] = number, keys
    return sorted(number for number, _ in first.values())


def holds(row: Row, where: str | None, values: Values) -> bool:
    """Return whether a row satisfies a WHERE clause.

    Raises:
        SyntaxError: a condition is of another form.
    """
    for condition in re.split(r" AND ", where or "", flags=re.IGNORECASE) if where else []:
        column, _, rest = condition.partition(" ")
        operator, _, operand = rest.partition(" ")
        if operator.upper() not in ("=", "IN"):
            raise SyntaxError(f"[PARSE_SYNTAX_ERROR] {condition}")
        wanted = [value_of(text.strip(), values) for text in operand.strip("()").split(",")]
        if text_of(_field(row, column)) not in wanted:
            return False
    return True


def value_of(text: str, values: Values) -> str | None:
    """Return the value of a literal or of a named parameter.

    Raises:
        SyntaxError: the parameter has no value.
    """
    if text.startswith(":"):
        if text[1:] not in values:
            raise SyntaxError(f"[UNBOUND_SQL_PARAMETER] {text}")
        return values[text[1:]]
    return text.strip("'")


def text_of(value: object) -> str | None:
    """Return a value as in the service's JSON arrays: a text, or None for NULL."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _least(rows: Sequence[Row], match: re.Match[str]) -> list[str | None]:
    by = _split(match["by"])
    partitions = [tuple(text_of(_field(row, column)) for column in by) for row in rows]
    least: dict[tuple[str | None, ...], str] = {}
    for partition, row in zip(partitions, rows, strict=True):
        value = text_of(_field(row, match["column"]))
        if value is not None:
            least[partition] = min(value, least.get(partition, value))
    return [least.get(partition) for partition in partitions]


def _is_before(keys: Sequence[Any], others: Sequence[Any], terms: Sequence[tuple[bool, Any]]) -> bool:
    for key, other, (is_descending, _) in zip(keys, others, terms, strict=True):
        if key != other:
            return bool((key > other) is is_descending)
    return False


def _term(text: str, values: Values) -> tuple[bool, Any]:
    """Return whether a term of ORDER BY descends, and its value in a row."""
    column, _, direction = text.rpartition(" ")
    is_descending = direction.upper() == "DESC"
    column = column if is_descending else text
    match = _EQUALITY.match(column)
    if match is None:
        return is_descending, lambda row: text_of(_field(row, column)) or ""
    name, wanted = match["column"], value_of(match["value"], values)
    return is_descending, lambda row: text_of(_field(row, name)) == wanted


def _split(text: str) -> list[str]:
    """Split a list at its commas outside of parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text)]


def _parts(column: str) -> tuple[str, ...]:
    return tuple(re.split(r"[.:]", column))


def _field(row: Row, column: str) -> Any:
    value: Any = row
    for part in _parts(column):
        value = value.get(part) if isinstance(value, dict) else None  # JSON; the check of a Mapping takes longer
    return value
