"""Commits that a table takes once, however often they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.cdc.planning import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
# The merge's source is computed once by us, so Delta need not copy it once more.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@contextmanager
def committing_once(session: SparkSession, *, application_id: str, batch_id: int) -> Iterator[None]:
    """Give every Delta commit of the block the transaction (`application_id`, `batch_id`).

    A table that has seen that transaction, or a later one of the application, skips the command.
    The settings are the session's, so the session must be this flow's alone (a streaming query's is).
    """
    wanted = {_APPLICATION: application_id, _VERSION: str(batch_id), _MATERIALIZE: "none"}
    with with_settings(session, wanted):
        yield
