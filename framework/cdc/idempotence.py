"""Commits that a table takes once, however often they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.cdc.planning import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
