"""Forgets deletes and truncates of AUTO CDC targets that are older than late events may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.cdc.delta.auxiliary_table import forget_deletes
from framework.run.configuration import whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession

    from framework.checkpoints.generations import GenerationStore
    from framework.foundation.storage import Storage
    from framework.foundation.table_address import TableAddress
    from framework.graph.graph import DataflowGraph, GraphDataset

THRESHOLD = "pipelines.cdc.tombstoneGCThresholdInSeconds"
"""Set for the pipeline, or in a dataset's or a flow's `spark_conf`."""

_DEFAULT_SECONDS = 172_800


def threshold_seconds(spark: SparkSession, settings: Mapping[str, str]) -> int:
    """How old a tombstone must be to be forgotten: by a flow's own settings, or by the pipeline's.

    Raises:
        UserError: INVALID_CONFIGURATION when it is no whole number from 0.
    """
    text = settings.get(THRESHOLD) or spark.conf.get(THRESHOLD, None)
    return whole_number({} if text is None else {THRESHOLD: text}, THRESHOLD, default=_DEFAULT_SECONDS, least=0)


def may_forget(graph: DataflowGraph, dataset: GraphDataset, generations: GenerationStore) -> bool:
    """Whether tombstones of a target may go at all.

    Not while one of its once flows has not run to its end: its rows are older than every delete, and a
    snapshot of 48 hours would bring back what was deleted while it ran. Histories (SCD type 2) keep
    all: their deletes are bounds of rows.
    """
    if dataset.cdc is None or dataset.cdc.scd_type != 1:
        return False
    once = [flow.spec.name for flow in graph.flows_into(dataset.name) if flow.spec.once]
    current = [generations.current(dataset.name, name) for name in once]
    return all(each is not None and each.completed for each in current)


def forget_old_deletes(
    session: SparkSession, companion: TableAddress, storage: Storage, *, now: datetime, older_than_seconds: int
) -> None:
    """Remove what is older from a companion table; one that is younger itself is not looked into.

    Stopping anywhere is safe: it is one commit, and who does it again removes the rest.
    """
    log = [file for file in storage.list_files(f"{companion.path}/_delta_log") if file.name.endswith(".json")]
    oldest = min((file.modified_at for file in log), default=None)
    if oldest is not None and now.timestamp() - oldest >= older_than_seconds:
        forget_deletes(session, companion, older_than_seconds=older_than_seconds)
