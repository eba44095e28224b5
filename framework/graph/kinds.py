"""The kind of a dataset, and the check that its queries fit the kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.declare.quarantine import VALUES, quarantine_property
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def dataset_kind(spec: DatasetSpec, flows: Sequence[GraphFlow]) -> DatasetKind:
    """Return the declared kind; for a decorated table, the kind that its streaming or batch DataFrame implies."""
    if spec.kind is not DatasetKind.TABLE:
        return spec.kind
    own = next((flow for flow in flows if flow.spec.name == spec.name), None)
    streams = own.streaming if own is not None else any(flow.streaming for flow in flows)
    return DatasetKind.STREAMING_TABLE if streams else DatasetKind.MATERIALIZED_VIEW


def query_type_error(dataset: GraphDataset, flow: GraphFlow) -> UserError | None:
    """Return an error if a flow's query is not of the kind that its target needs; None if it is valid."""
    spec = flow.spec
    condition = None
    if dataset.kind is DatasetKind.MATERIALIZED_VIEW and VALUES.get(quarantine_property(dataset.spec) or ""):
        return UserError("QUARANTINE_OF_VIEW", location=dataset.spec.location, dataset=dataset.name)
    if dataset.kind is DatasetKind.MATERIALIZED_VIEW and flow.streaming:
        condition = "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW"
    elif dataset.kind is DatasetKind.TEMPORARY_VIEW:
        return None
    elif spec.once and flow.streaming and spec.cdc is None:
        condition = "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_ONCE_FLOW"
    elif not (spec.once or flow.streaming or spec.from_snapshots) and _takes_streams(dataset):
        condition = "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE"
    if condition is None:
        return None
    return UserError(condition, location=spec.location, flow=spec.name, dataset=dataset.name)


def _takes_streams(dataset: GraphDataset) -> bool:
    return dataset.is_sink or dataset.kind is DatasetKind.STREAMING_TABLE


_VIEW_CHECK = "pipelines.incompatibleViewCheck.enabled"
"""A setting with which Databricks reads a view in the mode of its query, whether read as a stream or a batch."""


def check_view_read(view: QualifiedName, spark: SparkSession, *, view_streams: bool, read_streams: bool) -> None:
    """Check that a streaming view is read as a stream and a batch view as a batch.

    Args:
        view: the view.
        spark: the session of the pipeline. The error names `_VIEW_CHECK` if its configuration has that key.
        view_streams: whether its query is a stream.
        read_streams: whether it is read as a stream.

    Raises:
        UserError: INCOMPATIBLE_BATCH_VIEW_READ or INCOMPATIBLE_STREAMING_VIEW_READ, Spark's own conditions.
    """
    if view_streams == read_streams:
        return
    condition = "INCOMPATIBLE_STREAMING_VIEW_READ" if view_streams else "INCOMPATIBLE_BATCH_VIEW_READ"
    is_set = spark.conf.get(_VIEW_CHECK, None) is not None
    hint = f" The key `{_VIEW_CHECK}` has no effect: a view has the mode of its query." if is_set else ""
    raise UserError(condition, location=caller_location(), view=view, hint=hint)
