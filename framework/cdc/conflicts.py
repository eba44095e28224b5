"""What Delta raises when another commit changed meanwhile what a commit depends on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
)
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_CHANGED = "sluice: a row changed between reading and merging"


class RowChangedError(Exception):
    """A row is not what it was when it was decided what becomes of it."""


CONFLICTS = (
    RowChangedError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
)
"""All of them: in Python those of Delta have no class in common."""


def or_conflict(condition: Column) -> Column:
    """A condition of a merge that must hold; the merge fails with a conflict where it does not."""
    return F.when(condition, F.expr("true")).otherwise(F.raise_error(_CHANGED))


@contextmanager
def raising_conflicts() -> Iterator[None]:
    """Turn the failure of an `or_conflict` into a conflict.

    Raises:
        RowChangedError: a condition did not hold.
    """
    try:
        yield
    except PySparkException as error:
        if _CHANGED in str(error):
            raise RowChangedError(_CHANGED) from error
        raise
