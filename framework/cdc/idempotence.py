"""Commits that a table takes once, however often they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
# The merge's source is cached by us before the merge begins, so Delta need neither copy it once
# more nor fear that it was cached halfway.
_SETTINGS = {
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.merge.materializeCachedSource": "false",
    "spark.databricks.delta.merge.failSourceCachedAfterMaterialization": "false",
}


@contextmanager
def committing_once(session: SparkSession, *, application_id: str, batch_id: int) -> Iterator[None]:
    """Give every Delta commit of the block the transaction (`application_id`, `batch_id`).

    A table that has seen that transaction, or a later one of the application, skips the command.
    The settings are the session's, so the session must be this flow's alone (a streaming query's is).
    """
    wanted = {_APPLICATION: application_id, _VERSION: str(batch_id), **_SETTINGS}
    before = {key: session.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, previous in before.items():
            if previous is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, previous)
