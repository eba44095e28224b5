"""Bounds of a batch's keys, to skip files and rows of a table.

A bound is a whole number or ASCII text. Both leave the JVM and return to it unchanged, and all readers of a bound
agree on them: Spark, the Parquet reader and Delta's file statistics. ADR 14 lists the values on which they disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    Row,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from framework.cdc.model.columns import column

if TYPE_CHECKING:
    from pyspark.sql import Column


Ranges = Mapping[str, "KeyRange"]
"""Per key column, the bounds of its values; a key whose type has no bounds is absent."""

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_TIMES = (DateType, TimestampType, TimestampNTZType)
_DAY_MICROSECONDS = 24 * 60 * 60 * 1_000_000
_EPOCH = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date(1, 1, 2) - _EPOCH).days, (date(9999, 12, 30) - _EPOCH).days
_DAYS_GRID = 32
"""Days are rounded to multiples of this, so that no bound is a skipped day of the calendar change of 1582."""
_TEXT_LENGTH = 32
_LAST_ASCII = "\x7f"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The bounds of a key in a batch.

    Args:
        least: a lower bound of the values; None if there is none.
        most: an upper bound of the values; None if there is none.
        data_type: the key's type.
        span: the least and the greatest value of an integer key; None for other types.
    """

    least: int | str | None
    most: int | str | None
    data_type: DataType
    span: tuple[int, int] | None = None

    @classmethod
    def read(cls, bounds: Row, data_type: DataType) -> Self:
        """Return the range from a value of `bounds_of`."""
        least, most = bounds["least"], bounds["most"]
        if least is None or most is None:
            return cls(least=None, most=None, data_type=data_type)
        if isinstance(data_type, StringType):
            return cls(least=_ascii_below(least), most=_ascii_above(most), data_type=data_type)
        if isinstance(data_type, _TIMES):
            unit = _DAY_MICROSECONDS if isinstance(data_type, TimestampType) else 1
            first, last = _rounded_days(least // unit, most // unit)
            return cls(least=first, most=last, data_type=data_type)
        below, above = _rounded(int(least), int(most), limits=_limits(data_type))
        span = None if isinstance(data_type, DecimalType) else (int(least), int(most))
        return cls(least=below, most=above, data_type=data_type, span=span)

    def contains(self, value: Column) -> Column:
        """Return whether a value is within the bounds."""
        condition = F.expr("true")
        if self.least is not None:
            condition = condition & (value >= _literal(self.least, self.data_type))
        if self.most is not None:
            condition = condition & (value <= _literal(self.most, self.data_type))
        return condition


def has_bounds(data_type: DataType) -> bool:
    """Return whether keys of a type have bounds.

    A type has no bounds if readers disagree (-0.0 and NaN, collations, padded strings) or no reader skips data by them.
    """
    if isinstance(data_type, StringType):
        return data_type.isUTF8BinaryCollation()
    return type(data_type) in _BITS or isinstance(data_type, (*_TIMES, DecimalType))


def bounds_of(value: Column, data_type: DataType) -> Column:
    """Return the aggregate of the least and the greatest value, in the form of `KeyRange.read`."""
    least, most = _portable(F.min(value), data_type), _portable(F.max(value), data_type)
    if isinstance(data_type, DecimalType):
        least, most = F.floor(F.min(value)).cast("string"), F.ceil(F.max(value)).cast("string")
    return F.struct(least.alias("least"), most.alias("most"))


def _portable(value: Column, data_type: DataType) -> Column:
    """Return a value as a whole number or a text."""
    if isinstance(data_type, TimestampType):
        return F.unix_micros(value)
    if isinstance(data_type, TimestampNTZType):
        return F.unix_date(value.cast("date"))
    return F.unix_date(value) if isinstance(data_type, DateType) else value


def _literal(bound: int | str, data_type: DataType) -> Column:
    if isinstance(data_type, StringType):
        return F.lit(bound)
    if isinstance(data_type, TimestampType):
        return F.timestamp_micros(F.lit(int(bound) * _DAY_MICROSECONDS))
    if isinstance(data_type, _TIMES):
        return F.date_from_unix_date(F.lit(bound)).cast(data_type)
    return F.lit(str(bound) if isinstance(data_type, DecimalType) else bound).cast(data_type)


def _limits(data_type: DataType) -> tuple[int, int]:
    """Return the least and the greatest whole number of a type."""
    if isinstance(data_type, DecimalType):
        most = 10 ** (data_type.precision - data_type.scale) - 1
        return -most, most
    half = 1 << (_BITS[type(data_type)] - 1)
    return -half, half - 1


def _rounded(least: int, most: int, *, limits: tuple[int, int]) -> tuple[int | None, int | None]:
    """Widen bounds, at most by half, so that batches with similar keys share them; None beyond the type's limits.

    Spark inlines numbers into generated code. If each batch had different bounds, its code would be compiled again, and
    run slowly until then. That costs more than reading the table.

    Examples:
        >>> limits = (-(2**31), 2**31 - 1)
        >>> _rounded(13, 1_999_981, limits=limits), _rounded(44, 1_999_990, limits=limits)
        ((0, 2097151), (0, 2097151))
        >>> _rounded(-5, -5, limits=limits), _rounded(-(2**31), 2**31 - 1, limits=limits)
        ((-5, -5), (-2147483648, 2147483647))
        >>> _rounded(-12, 10, limits=(-9, 9))
        (None, None)
    """
    grid = 1 << max(0, (most - least).bit_length() - 3)
    below, above = least // grid * grid, (most // grid + 1) * grid - 1
    below, above = max(below, min(least, limits[0])), min(above, max(most, limits[1]))
    return (below if below >= limits[0] else None), (above if above <= limits[1] else None)


def _rounded_days(least: int, most: int) -> tuple[int | None, int | None]:
    """Widen bounds in days; None outside of the years 1 to 9999, which not all readers support.

    Examples:
        >>> _rounded_days(20_000, 20_000), _rounded_days(-800_000, 3_000_000)
        ((20000, 20032), (None, None))
    """
    grid = max(_DAYS_GRID, 1 << max(0, (most - least).bit_length() - 3))
    below, above = least // grid * grid, (most // grid + 1) * grid
    return (
        min(below, _LAST_DAY) if below >= _FIRST_DAY else None,
        max(above, _FIRST_DAY) if above <= _LAST_DAY else None,
    )


def _ascii_below(text: str) -> str | None:
    r"""Return the ASCII prefix of `text`, up to a maximum length; None if it is empty.

    Examples:
        >>> _ascii_below("cafe"), _ascii_below("caf\ufffd"), _ascii_below("\u65e5")
        ('cafe', 'caf', None)
    """
    return _ascii_prefix(text) or None


def _ascii_above(text: str) -> str | None:
    r"""Return an ASCII text that is not below `text`; None if there is none.

    Examples:
        >>> _ascii_above("cafe"), _ascii_above("caf\ufffd"), _ascii_above("a\x7f\ufffd"), _ascii_above("\u65e5")
        ('cafe', 'cag', 'b', None)
    """
    prefix = _ascii_prefix(text)
    if prefix == text:
        return text
    shorter = prefix.rstrip(_LAST_ASCII)
    return shorter[:-1] + chr(ord(shorter[-1]) + 1) if shorter else None


def _ascii_prefix(text: str) -> str:
    length = next((index for index, letter in enumerate(text) if letter > _LAST_ASCII), len(text))
    return text[: min(length, _TEXT_LENGTH)]


def key_range(ranges: Ranges, *, of: str | None = None) -> Column:
    """Return a condition that is true for all rows with keys of the batch; Delta uses it to skip files."""
    condition = F.expr("true")
    for key, bounds in ranges.items():
        condition = condition & bounds.contains(column(key, of=of))
    return condition


def may_contain(statistics: Mapping[str, Any], ranges: Ranges) -> bool:
    """Return whether a file may have a row with keys in all ranges, as far as its statistics can exclude it.

    Examples:
        >>> known = {"minValues": {"id": 10}, "maxValues": {"id": 20}}
        >>> spans = ((0, 9), (0, 10), (20, 30), (21, 30))
        >>> whole = [KeyRange(least=None, most=None, data_type=LongType(), span=span) for span in spans]
        >>> [may_contain(known, {"id": found}) for found in whole]
        [False, True, True, False]
        >>> may_contain({}, {"id": whole[0]}), may_contain({"minValues": {"id": 10}}, {"id": whole[0]})
        (True, True)
    """
    least, most = statistics.get("minValues", {}), statistics.get("maxValues", {})
    return all(
        found.span is None
        or not (isinstance(least.get(key), int) and isinstance(most.get(key), int))
        or (least[key] <= found.span[1] and found.span[0] <= most[key])
        for key, found in ranges.items()
    )
