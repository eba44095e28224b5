"""Warnings about tables partitioned by TIMESTAMP: some times are stored as other times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType, TimestampType

from framework.cdc.model.columns import find_field
from framework.engine.sessions.session import is_zone_set_back
from framework.foundation.errors import UserError
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.graph.queries.settings import ZONE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def partition_warnings(graph: DataflowGraph, session: SparkSession) -> Iterator[UserError]:
    """Yield a warning for each TIMESTAMP partition column that is written in a time zone with clock changes.

    A partition path has a local time without an offset. When clocks are set back, an hour occurs twice, and Delta
    stores the second occurrence as the first.

    Args:
        graph: a valid graph.
        session: has the default time zone of flows.
    """
    for dataset in graph.datasets:
        for column in _times(dataset):
            flows = graph.flows_into(dataset.name)
            for zone in sorted({graph.settings(flow).get(ZONE) or str(session.conf.get(ZONE)) for flow in flows}):
                if is_zone_set_back(zone):
                    yield UserError(
                        "PARTITION_STORES_OTHER_HOUR",
                        location=dataset.spec.location,
                        dataset=dataset.name,
                        column=column.name,
                        zone=zone,
                    )


def _times(dataset: GraphDataset) -> list[StructField]:
    schema = dataset.table_schema or dataset.schema
    if not dataset.spec.partition_columns or schema is None:
        return []
    columns = StructType.fromJson(json.loads(schema))
    found = (find_field(columns, name) for name in dataset.spec.partition_columns)
    return [field for field in found if field is not None and isinstance(field.dataType, TimestampType)]
