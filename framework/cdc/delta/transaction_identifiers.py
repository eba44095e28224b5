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


from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.cdc.spark.session_settings import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
# The merge's source is computed once by us, so Delta need not copy it once more.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch as a table remembers it.

    Args:
        application_id: the flow's and its checkpoint generation's own.
        number: the batch's in that checkpoint; a table takes each once, in ascending order.
    """

    application_id: str
    number: int


@contextmanager
def committing_once(session: SparkSession, batch: Batch) -> Iterator[None]:
    """Give every Delta commit of the block the batch as its transaction.

    A table that has seen that transaction, or a later one of the application, skips the command.
    The settings are the session's, so the session must be this flow's alone (a streaming query's is).
    """
    wanted = {_APPLICATION: batch.application_id, _VERSION: str(batch.number), _MATERIALIZE: "none"}
    with with_settings(session, wanted):
        yield
