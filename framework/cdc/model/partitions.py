"""Text as a partition value: Delta stores a partition value as text in paths and in its log, which changes some.

An empty text and Hive's name for NULL are read as NULL, and bytes that are not valid UTF-8 are replaced. A key must
not change, so a batch with such a key is refused; another column's value is changed before it is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_NULL_PARTITION = b"__HIVE_DEFAULT_PARTITION__"


def is_storable(value: Column) -> Column:
    """Whether a text is the same after it was stored as a partition value; no path has the character NUL."""
    return _is_some(value) & F.is_valid_utf8(value) & ~F.contains(value.cast("binary"), F.lit(b"\x00"))


def as_stored(value: Column) -> Column:
    """A text as it is after it was stored as a partition value."""
    return F.when(_is_some(value), F.make_valid_utf8(value))


def _is_some(value: Column) -> Column:
    return (F.octet_length(value) > F.lit(0)) & (value.cast("binary") != F.lit(_NULL_PARTITION))
