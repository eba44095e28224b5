"""Delta's conflicts between concurrent commits, and the transaction identifiers of batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from framework.engine.sessions.execution import with_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_CHANGED = "sluice: a row changed between reading and merging"


class RowChangedError(Exception):
    """A row changed between the read that decided its change and the merge."""


CONFLICTS = (
    RowChangedError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""All conflicts, including changes of the table's definition; Delta's have no common base class in Python."""


def or_conflict(condition: Column) -> Column:
    """Return a merge condition that must hold; the merge fails with a conflict if it does not."""
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
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_VERSION = "spark.databricks.delta.write.txnVersion"
# The merge's source is computed once already, so Delta need not materialize it.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The transaction identifier of a micro-batch.

    Args:
        application_id: unique to the flow and its checkpoint generation.
        number: the batch's number in that checkpoint; a table takes each number once, in ascending order.
    """

    application_id: str
    number: int

    @property
    def metadata(self) -> str:
        """The batch as user metadata of a commit."""
        return json.dumps({"sluice": {"batch": [self.application_id, self.number]}})


@contextmanager
def committing_once(session: SparkSession, batch: Batch) -> Iterator[None]:
    """Set the batch as the transaction identifier of every Delta commit in the block.

    A table that has this transaction, or a later one of the application, skips the command.
    These are settings of the session, so no other flow may use the session (a streaming query has its own).
    """
    wanted = {_APPLICATION: batch.application_id, _VERSION: str(batch.number), _MATERIALIZE: "none"}
    with with_settings(session, wanted):
        yield
