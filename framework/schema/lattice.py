"""The lattice of types: which type can hold all values of which other types, in one table for all comparisons.

Types are written as in Spark SQL: `bigint`, `decimal(10,2)`. A `Widening` defines which lines of the table a place
allows. `framework.schema.data_types` applies it to Spark's types, including nested types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto
from functools import cache

WIDENING_PROPERTY = "delta.enableTypeWidening"
"""The table property that allows type widening."""


class Place(Flag):
    """The places where types are compared."""

    TABLE = auto()
    """A column of a Delta table, which Delta widens without rewriting files."""
    TEXT_FILES = auto()
    """A column of text files, widened as in a table: a text that is a date in one file may not be one in another."""
    FILES = auto()
    """An inferred column of files, where every value is kept."""
    AUTO_CDC = auto()
    """A column written by the flows of one target, where the order of events must not change."""
    COMPARISON = auto()
    """A column of two tables whose values are compared exactly."""


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
"""Each type, its next wider type, and the places where that widening is allowed; decimals follow from their digits."""

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""The number of decimal digits of integer types."""
_MOST_DIGITS = 38
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_NOTHING = "void"
_WITH_PARAMETERS = frozenset({"decimal", "string collate"})
_TEXTS = re.compile(r"string( collate .+)?|(var)?char\(\d+\)")


class Fields(Enum):
    """The fields of the common type of two structs."""

    BOTH = "those of both, whatever the case of their names"
    CASED = "those of both; names that differ in case are of different fields"
    KNOWN = "those of the first, whose types stay where no wider one has the values of both"
    SAME = "those of each, which must be the same in the same order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """The part of the lattice that a place allows.

    Args:
        lines: the lines of the table that apply; without any, only equal types have a common type.
        least_digits: the minimum precision of a decimal that holds the values of an integer type.
        most_digits: the maximum precision of such a decimal.
        kept: types that are not widened if a column already has them.
        takes_void: whether VOID, whose only value is NULL, is compatible with every type.
        one_text: whether all text types count as the same type.
        otherwise: the type that can hold values of any type; None if there is none.
        fields: the fields of the common type of two structs.
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
        """Return the narrowest type that can hold all values of two types; None if there is none.

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
        """Return the type to which a column of type `known` is widened to hold `found`; None if there is none.

        Examples:
            >>> TABLE.wider("int", "bigint"), TABLE.wider("bigint", "int")
            ('bigint', 'bigint')
            >>> TABLE.wider("int", "float"), TABLE.wider("float", "double"), TABLE.wider("bigint", "double")
            ('double', None, None)
        """
        common = self.common(known, found)
        return None if known in self.kept and common != known else common

    def stands_for(self, stored: str, known: str) -> bool:
        """Return whether a stored type has all values of the known type, and a cast back fails before it loses a part.

        Examples:
            >>> TABLE.stands_for("bigint", "int"), TABLE.stands_for("decimal(9,2)", "decimal(5,2)")
            (True, True)
            >>> TABLE.stands_for("int", "bigint"), TABLE.stands_for("double", "int")
            (False, False)
        """
        digits = self._digits(stored), self._digits(known)
        if digits[0] is None or digits[1] is None or digits[0][1] != digits[1][1]:
            return False
        return self.common(stored, known) == stored

    def _least(self, first: str, second: str) -> str | None:
        """Return the least upper bound of two types in the table; None if there is none."""
        above = _above(_line(first), self.lines) & _above(_line(second), self.lines) - _WITH_PARAMETERS
        return next((each for each in sorted(above) if above <= _above(each, self.lines)), None)

    def _digits(self, name: str) -> tuple[int, int] | None:
        """Return a number's digits before and after the decimal point; None if they are not fixed."""
        found = _DECIMAL.fullmatch(name)
        if found:
            return int(found[1]) - int(found[2]), int(found[2])
        digits = _DIGITS.get(name)
        return None if digits is None else (min(max(digits, self.least_digits), self.most_digits), 0)


def _decimal_of(parts: Sequence[tuple[int, int]]) -> str | None:
    """Return the decimal that has enough digits for all numbers; None if it would have too many."""
    whole, scale = (max(each[place] for each in parts) for place in (0, 1))
    return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None


def _line(name: str) -> str:
    """Return a type by its name in the table, without parameters."""
    if _DECIMAL.fullmatch(name):
        return "decimal"
    return "string collate" if name.startswith("string collate ") else name


@cache
def _above(name: str, lines: Place) -> frozenset[str]:
    """Return a type together with all wider types of the table."""
    wider = (after for before, after, places in _TABLE if before == name and places & lines)
    return frozenset({name}).union(*(_above(each, lines) for each in wider))


TABLE = Widening(lines=Place.TABLE, least_digits=10, kept=frozenset({"float"}))
"""Delta's type widening, which neither rewrites files nor loses values.

A known FLOAT is not widened. Delta would keep the file statistics, where 0.1 stands for the float 0.100000001…, so
queries would skip files with values that, as doubles, are outside the range of the statistics.
"""

GROWN_TABLE = replace(TABLE, takes_void=True)
"""Columns of a table with type widening, and of the queries that append to it."""

SAME_TYPES = Widening(lines=Place(0), takes_void=True)
"""Columns of a table without type widening, and of the queries that append to it."""

KNOWN_FILES = replace(TABLE, fields=Fields.KNOWN)
"""Known columns of files with their own types."""

KNOWN_TEXT_FILES = replace(KNOWN_FILES, lines=Place.TEXT_FILES)
"""Known columns of text files."""

FILES = Widening(lines=Place.FILES, takes_void=True, otherwise="string", fields=Fields.CASED)
"""Inferred columns of files; a text can hold any value."""

AUTO_CDC = Widening(lines=Place.AUTO_CDC, takes_void=True)
"""Columns and sequences of the flows of one target."""

COMPARISON = Widening(lines=Place.COMPARISON, most_digits=19, one_text=True, fields=Fields.SAME)
"""Columns of two compared tables; texts are compared by their bytes, regardless of collation."""
