"""Garbage collection of tombstones: the deletes and truncates that AUTO CDC keeps to detect late events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.cdc.delta.auxiliary_table import forget_deletes
from framework.run.configuration import whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession

    from framework.checkpoints.generations import GenerationStore
    from framework.foundation.files.storage import Storage
    from framework.foundation.table_address import TableAddress
    from framework.graph.graph import DataflowGraph, GraphDataset

THRESHOLD = "pipelines.cdc.tombstoneGCThresholdInSeconds"
"""The configuration key, set for the pipeline or in the `spark_conf` of a dataset or a flow."""

_DEFAULT_SECONDS = 172_800


def threshold_seconds(spark: SparkSession, settings: Mapping[str, str]) -> int:
    """Return the age at which tombstones are removed, from the settings of the flow or else of the pipeline.

    Args:
        spark: a session with the pipeline's settings, in which no query function runs.
        settings: the flow's settings.

    Raises:
        UserError: INVALID_CONFIGURATION if the value is not a whole number from 0.
    """
    text = settings.get(THRESHOLD) or spark.conf.get(THRESHOLD, None)
    return whole_number({} if text is None else {THRESHOLD: text}, THRESHOLD, default=_DEFAULT_SECONDS, least=0)


def may_forget(graph: DataflowGraph, dataset: GraphDataset, generations: GenerationStore) -> bool:
    """Whether tombstones of a target may be removed.

    They are kept while a once flow of the target is unfinished: its rows are older than every delete, so an initial
    load of 48 hours would restore rows that were deleted meanwhile. SCD type 2 targets keep all tombstones, because
    their deletes are the end of a row's validity. Targets that keep deleted rows also keep all tombstones, because a
    late event would remove the flag from such a row.
    """
    if dataset.cdc is None or dataset.cdc.scd_type != 1 or dataset.cdc.flag is not None:
        return False
    once = [flow.spec.name for flow in graph.flows_into(dataset.name) if flow.spec.once]
    current = [generations.current(dataset.name, name) for name in once]
    return all(each is not None and each.completed for each in current)


def forget_old_deletes(
    session: SparkSession, auxiliary: TableAddress, storage: Storage, *, now: datetime, older_than_seconds: int
) -> None:
    """Remove older tombstones from an auxiliary table; a table whose log is too young to have any is not read.

    A crash anywhere is safe: the removal is one commit, and the next call removes the rest.
    """
    log = [file for file in storage.list_files(f"{auxiliary.path}/_delta_log") if file.name.endswith(".json")]
    oldest = min((file.modified_at for file in log), default=None)
    if oldest is not None and now.timestamp() - oldest >= older_than_seconds:
        forget_deletes(session, auxiliary, older_than_seconds=older_than_seconds)
