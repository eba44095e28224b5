"""Commits to Delta's log that are equivalent to commits of Delta's streaming sink, and the sink itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.engine.delta.table_version import DELTA
from framework.engine.jvm.java import java_class, scala_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from framework.engine.delta.table_version import TableVersion

_QUERY_ID = "sql.streaming.queryId"
"""The thread-local property that holds the id of the streaming query."""


def append_batch(version: TableVersion, adds: Any, query_id: str, number: int, counts: Mapping[str, int]) -> None:
    """Commit a Scala `Seq` of added files as a batch of a stream.

    Args:
        version: the newest version of the table.
        adds: the actions.
        query_id: the id of the stream.
        number: the number of the batch.
        counts: rows and bytes for the history, if Delta did not write the files.
    """
    version.set_metrics({**counts, "numAddedFiles": int(adds.size()), "numRemovedFiles": 0})
    mode, none = java_class("org.apache.spark.sql.streaming.OutputMode").Append(), java_class("scala.Option").empty()
    operation = java_class(f"{DELTA}.DeltaOperations$StreamingUpdate")(mode, query_id, number, none)
    version.commit(adds.prepended(version.taken(query_id, number)), operation)


def append_by_sink(
    version: TableVersion, rows: DataFrame, query_id: str, number: int, options: Mapping[str, str]
) -> None:
    """Append rows by Delta's own sink, in a separate transaction with the id of the stream in this thread."""
    spark = rows.sparkSession
    context: Any = spark.sparkContext._jsc
    before = context.getLocalProperty(_QUERY_ID)
    context.setLocalProperty(_QUERY_ID, query_id)
    try:
        _sink(version, options).addBatch(number, rows._jdf)
    finally:
        context.setLocalProperty(_QUERY_ID, before)


def _sink(version: TableVersion, options: Mapping[str, str]) -> Any:
    session, none = version.session._jsparkSession, java_class("scala.Option").empty()
    settings = java_class(f"{DELTA}.DeltaOptions")(scala_map(options), session.sessionState().conf())
    mode = java_class("org.apache.spark.sql.streaming.OutputMode").Append()
    return java_class(f"{DELTA}.sources.DeltaSink")(
        session.sqlContext(), version.log.dataPath(), version.sequence(), mode, settings, none
    )
