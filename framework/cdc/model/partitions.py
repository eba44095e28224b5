"""Text as a partition value: Delta stores partition values as text in paths and in its log, which changes some values.

An empty text and Hive's name for NULL are read as NULL, and bytes that are not valid UTF-8 are replaced. A key must
not change, so a batch with such a key is rejected. The value of any other column is converted before it is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_NULL_PARTITION = b"__HIVE_DEFAULT_PARTITION__"


def is_storable(value: Column) -> Column:
    """Return whether a text stays the same when stored as a partition value; a path cannot have the character NUL."""
    return _is_some(value) & F.is_valid_utf8(value) & ~F.contains(value.cast("binary"), F.lit(b"\x00"))


def as_stored(value: Column) -> Column:
    """Return a text in the form that it has after it is stored as a partition value."""
    return F.when(_is_some(value), F.make_valid_utf8(value))


def _is_some(value: Column) -> Column:
    return (F.octet_length(value) > F.lit(0)) & (value.cast("binary") != F.lit(_NULL_PARTITION))
