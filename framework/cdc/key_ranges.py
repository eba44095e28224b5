"""The bounds of a batch's keys, by which a table's files and rows are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType

from framework.cdc.columns import column
from framework.cdc.literals import rebuild

Ranges = Mapping[str, "KeyRange"]
"""Per key column, the bounds of its values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyRange:
    """The bounds of a key in a batch.

    Args:
        least: a literal that no value is below.
        most: a literal that no value is above.
        span: the least and the greatest value, of a key that is a whole number.
    """

    least: Column
    most: Column
    span: tuple[int, int] | None = None

    @classmethod
    def of(cls, least: object, most: object, data_type: DataType) -> Self:
        """The range from the least value that was collected to the greatest."""
        if not (isinstance(least, int) and isinstance(most, int) and isinstance(data_type, LongType | IntegerType)):
            return cls(least=rebuild(least, data_type), most=rebuild(most, data_type))
        below, above = _rounded(least, most, bits=64 if isinstance(data_type, LongType) else 32)
        return cls(least=rebuild(below, data_type), most=rebuild(above, data_type), span=(least, most))


def _rounded(least: int, most: int, *, bits: int) -> tuple[int, int]:
    """Wider bounds, at most by half, that batches of like keys have in common.

    Spark writes numbers into the code that it generates. With bounds of its own each batch would be
    compiled anew, and run slowly until it is; that costs more than reading the table does.

    Examples:
        >>> _rounded(13, 1_999_981, bits=64), _rounded(44, 1_999_990, bits=64)
        ((0, 2097151), (0, 2097151))
        >>> _rounded(-5, -5, bits=64), _rounded(-(2**31), 2**31 - 1, bits=32)
        ((-5, -5), (-2147483648, 2147483647))
    """
    grid = 1 << max(0, (most - least).bit_length() - 3)
    limit = 1 << (bits - 1)
    return max(-limit, least // grid * grid), min(limit - 1, (most // grid + 1) * grid - 1)


def key_range(ranges: Ranges, *, of: str | None = None) -> Column:
    """A condition that a table's rows with keys of the batch fulfil, by which Delta skips files."""
    condition = F.expr("true")
    for key, bounds in ranges.items():
        value = column(key, of=of)
        condition = condition & (value >= bounds.least) & (value <= bounds.most)
    return condition


def may_hold(statistics: Mapping[str, Any], ranges: Ranges) -> bool:
    """Whether a file may have a row with keys in all of the ranges, by its statistics; one that does not tell may.

    Examples:
        >>> told = {"minValues": {"id": 10}, "maxValues": {"id": 20}}
        >>> whole = [KeyRange(least=None, most=None, span=span) for span in ((0, 9), (0, 10), (20, 30), (21, 30))]
        >>> [may_hold(told, {"id": found}) for found in whole]
        [False, True, True, False]
        >>> may_hold({}, {"id": whole[0]}), may_hold({"minValues": {"id": 10}}, {"id": whole[0]})
        (True, True)
    """
    least, most = statistics.get("minValues", {}), statistics.get("maxValues", {})
    return all(
        found.span is None
        or not (isinstance(least.get(key), int) and isinstance(most.get(key), int))
        or (least[key] <= found.span[1] and found.span[0] <= most[key])
        for key, found in ranges.items()
    )
