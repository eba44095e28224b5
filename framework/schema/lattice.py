"""The lattice of types: which type has all values of which other one. One table, for each place that compares types.

Types are written as Spark's SQL writes them: `bigint`, `decimal(10,2)`. A `Widening` says which lines of the table a
place allows. `framework.schema.data_types` has the same for Spark's types, at any depth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto
from functools import cache

WIDENING_PROPERTY = "delta.enableTypeWidening"
"""The table property that allows wider types of columns."""


class Place(Flag):
    """Where types are compared."""

    TABLE = auto()
    """Delta widens a column without a rewrite of its files."""
    TEXT_FILES = auto()
    """As in a table, for columns of files of texts: a text that is a date in one file may be none in another."""
    FILES = auto()
    """The columns of files are inferred, and each value is kept."""
    AUTO_CDC = auto()
    """Flows write one target, whose order of events may not change."""
    COMPARISON = auto()
    """The values of two tables are compared, exactly."""


_ALL = Place.TABLE | Place.TEXT_FILES | Place.FILES | Place.AUTO_CDC | Place.COMPARISON

_TABLE = (
    ("tinyint", "smallint", _ALL),
    ("smallint", "int", _ALL),
    ("int", "bigint", _ALL),
    ("int", "double", Place.TABLE | Place.TEXT_FILES | Place.FILES | Place.AUTO_CDC),
    ("bigint", "double", Place.AUTO_CDC),
    ("decimal", "double", Place.AUTO_CDC),
    ("float", "double", _ALL),
    ("date", "timestamp", Place.FILES | Place.AUTO_CDC),
    ("date", "timestamp_ntz", Place.TABLE | Place.AUTO_CDC),
    ("string collate", "string", Place.AUTO_CDC),
)
"""Each type, the next wider one, and where it counts as wider. Decimals follow from their digits."""

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""The precision of Spark's decimals for whole numbers."""
_MOST_DIGITS = 38
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_NOTHING = "void"
_WITH_PARAMETERS = frozenset({"decimal", "string collate"})
_TEXTS = re.compile(r"string( collate .+)?|(var)?char\(\d+\)")


class Fields(Enum):
    """Which fields the common type of two structs has."""

    BOTH = "those of both, whatever the case of their names"
    CASED = "those of both; names that differ in case are of different fields"
    KNOWN = "those of the first, whose types stay where no wider one has the values of both"
    SAME = "those of each, which must be the same in the same order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """The part of the lattice that one place allows.

    Args:
        lines: the lines of the table; none of them allows equal types only.
        least_digits: the least precision of a decimal that has all values of a whole number.
        most_digits: the greatest one.
        kept: types that have no wider one if a column has them already.
        takes_void: whether each type has the only value of VOID, which is NULL.
        one_text: whether all texts have one type.
        otherwise: the type that has all values, of any type; None if there is no such type.
        fields: the fields of structs.
    """

    lines: Place
    least_digits: int = 1
    most_digits: int = 20
    kept: frozenset[str] = frozenset()
    takes_void: bool = False
    one_text: bool = False
    otherwise: str | None = None
    fields: Fields = Fields.BOTH

    def common(self, first: str, second: str) -> str | None:
        """Return the narrowest type that has all values of two types; None if there is none.

        Examples:
            >>> AUTO_CDC.common("int", "decimal(5,2)"), AUTO_CDC.common("bigint", "double")
            ('decimal(12,2)', 'double')
            >>> FILES.common("bigint", "double"), COMPARISON.common("bigint", "double")
            ('string', None)
        """
        if self.one_text and _TEXTS.fullmatch(first) and _TEXTS.fullmatch(second):
            return "string"
        if first == second:
            return first
        if self.takes_void and _NOTHING in (first, second):
            return first if second == _NOTHING else second
        parts = [digits for each in (first, second) if (digits := self._digits(each)) is not None]
        is_decimal = bool(self.lines) and len(parts) == 2 and any(map(_DECIMAL.fullmatch, (first, second)))
        return (_decimal_of(parts) if is_decimal else self._least(first, second)) or self.otherwise

    def wider(self, known: str, found: str) -> str | None:
        """Return the type to which a column of type `known` is widened for values of another type; None if to none.

        Examples:
            >>> TABLE.wider("int", "bigint"), TABLE.wider("bigint", "int")
            ('bigint', 'bigint')
            >>> TABLE.wider("int", "float"), TABLE.wider("float", "double"), TABLE.wider("bigint", "double")
            ('double', None, None)
        """
        common = self.common(known, found)
        return None if known in self.kept and common != known else common

    def _least(self, first: str, second: str) -> str | None:
        """Return the type of the table that is above two types, and below each other one that is."""
        above = _above(_line(first), self.lines) & _above(_line(second), self.lines) - _WITH_PARAMETERS
        return next((each for each in sorted(above) if above <= _above(each, self.lines)), None)

    def _digits(self, name: str) -> tuple[int, int] | None:
        """Return the digits of a number before and after the point; None if they are not fixed."""
        found = _DECIMAL.fullmatch(name)
        if found:
            return int(found[1]) - int(found[2]), int(found[2])
        digits = _DIGITS.get(name)
        return None if digits is None else (min(max(digits, self.least_digits), self.most_digits), 0)


def _decimal_of(parts: Sequence[tuple[int, int]]) -> str | None:
    """Return the decimal that has the digits of all numbers; None if it would have too many."""
    whole, scale = (max(each[place] for each in parts) for place in (0, 1))
    return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None


def _line(name: str) -> str:
    """Return a type as the table names it, without its parameters."""
    if _DECIMAL.fullmatch(name):
        return "decimal"
    return "string collate" if name.startswith("string collate ") else name


@cache
def _above(name: str, lines: Place) -> frozenset[str]:
    """Return a type with all wider ones of the table."""
    wider = (after for before, after, places in _TABLE if before == name and places & lines)
    return frozenset({name}).union(*(_above(each, lines) for each in wider))


TABLE = Widening(lines=Place.TABLE, least_digits=10, kept=frozenset({"float"}))
"""Types to which Delta widens a column without a rewrite of its files, and without loss.

A known FLOAT stays one. Delta would keep the statistics of its files, where 0.1 stands for the float 0.100000001…:
queries would skip files whose values, as doubles, are above the greatest or below the least one of the statistics.
"""

GROWN_TABLE = replace(TABLE, takes_void=True)
"""Columns of a table and of the queries that append to it, if its types may widen."""

SAME_TYPES = Widening(lines=Place(0), takes_void=True)
"""The same, if its types may not."""

KNOWN_FILES = replace(TABLE, fields=Fields.KNOWN)
"""Known columns of files that have types of their own."""

KNOWN_TEXT_FILES = replace(KNOWN_FILES, lines=Place.TEXT_FILES)
"""Known columns of files of texts."""

FILES = Widening(lines=Place.FILES, takes_void=True, otherwise="string", fields=Fields.CASED)
"""Columns of files; a text has each value."""

AUTO_CDC = Widening(lines=Place.AUTO_CDC, takes_void=True)
"""Columns of the flows of one target, and their sequences."""

COMPARISON = Widening(lines=Place.COMPARISON, most_digits=19, one_text=True, fields=Fields.SAME)
"""Columns of two tables whose values are compared; texts by their bytes, whatever their collation is."""
