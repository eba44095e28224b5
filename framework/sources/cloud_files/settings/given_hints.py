"""Parsed `schemaHints`: each names a column or field and its type, and no two hints contradict each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from framework.foundation.errors import UserError
from framework.foundation.wording import one_line

_NAME = r"`(?:[^`]|``)+`|(?:[^\s`.:]|:(?!\s))+"
_HINT = re.compile(rf"(?P<path>(?:{_NAME})(?:\.(?:{_NAME}))*)(?:\s*:\s+|\s+)(?P<rest>\S.*)", re.DOTALL)
_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|.", re.DOTALL)
"""A name in backticks, a string in quotes, or one character: a hint ends at a comma outside of quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One hint.

    Args:
        path: the names of the column and of the nested fields; `element`, `key` and `value` are parts of arrays and
            maps.
        column: has the type, and the comment if there is one.
        text: as the user writes it.
    """

    path: tuple[str, ...]
    column: StructField
    text: str

    @property
    def place(self) -> tuple[str, ...]:
        """Return the path in lower case, because column names are case-insensitive."""
        return tuple(name.lower() for name in self.path)


def parse_hints(hints: str) -> list[Hint]:
    """Parse `id BIGINT, address.zip STRING`; a hint for a column comes before those for fields inside of it.

    Raises:
        UserError: CLOUD_FILES_HINTS_INVALID, CLOUD_FILES_HINTS_CONFLICT.
    """
    parts, depth, current = [], 0, ""
    for piece in _PIECE.findall(hints):
        depth += (piece in {"<", "("}) - (piece in {">", ")"})
        if piece == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += piece
    found = [_parsed(part, hints) for part in (each.strip() for each in [*parts, current]) if part]
    _check(found)
    return sorted(found, key=lambda hint: len(hint.path))


def _parsed(part: str, hints: str) -> Hint:
    match = _HINT.fullmatch(part)
    if match is None:
        raise UserError("CLOUD_FILES_HINTS_INVALID", hints=hints, cause=f"`{part}` is no column with a type.")
    path = tuple(_unquoted(name) for name in re.findall(_NAME, match["path"]))
    try:
        # As a column of a schema: as a type alone, `DATE INT` would be a struct.
        columns = DataType.fromDDL(f"hint {match['rest']}")
    except PySparkException as error:
        cause = one_line(str(error).split("\n")[0])
        raise UserError("CLOUD_FILES_HINTS_INVALID", hints=hints, cause=cause) from error
    assert isinstance(columns, StructType), columns
    column = StructField(path[-1], columns.fields[0].dataType, metadata=columns.fields[0].metadata)
    return Hint(path=path, column=column, text=part)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _check(hints: Sequence[Hint]) -> None:
    """Refuse two hints that give different types to one column or field.

    Raises:
        UserError: CLOUD_FILES_HINTS_CONFLICT.
    """
    for one, other in combinations(hints, 2):
        outer, inner = sorted((one, other), key=lambda hint: len(hint.path))
        if inner.place[: len(outer.place)] != outer.place:
            continue
        given = _type_at(outer.column.dataType, inner.place[len(outer.place) :])
        if given is not None and given != inner.column.dataType:
            why = "both give a type to one column" if len(one.path) == len(other.path) else "one is inside of the other"
            raise UserError("CLOUD_FILES_HINTS_CONFLICT", hint=one.text, other=f"`{other.text}`", why=why)


def _type_at(kind: DataType, path: Sequence[str]) -> DataType | None:
    """Return the nested type at a path, or the type that can't contain the path; None if it may be added.

    Args:
        kind: the type of the outer hint.
        path: the place, in lower case.
    """
    if not path:
        return kind
    if isinstance(kind, StructType):
        fields = {each.name.lower(): each.dataType for each in kind.fields}
        return _type_at(fields[path[0]], path[1:]) if path[0] in fields else None
    inner = part_of(kind, path[0])
    return kind if inner is None else _type_at(inner, path[1:])


def part_of(kind: DataType, name: str) -> DataType | None:
    """Return the type of the `element`, `key` or `value` of an array or a map; None if there is no such part."""
    if isinstance(kind, ArrayType):
        return kind.elementType if name == "element" else None
    if isinstance(kind, MapType):
        return {"key": kind.keyType, "value": kind.valueType}.get(name)
    return None
