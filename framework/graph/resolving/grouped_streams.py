"""Streams that are grouped without a watermark: their tables become materialized views of the same rows.

Databricks runs such a stream in Spark's complete mode, which replaces all rows of the table in each batch (ADR 74).
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import SluiceError
from framework.graph.graph import Read

_TABLES = frozenset({DatasetKind.TABLE, DatasetKind.STREAMING_TABLE})
_OF_SPEED = frozenset({"maxfilespertrigger", "maxbytespertrigger"})
"""Options that change no row of a stream."""


def may_be_a_view(error: SluiceError, dataset: DatasetSpec, flow: FlowSpec, reads: Iterable[Read]) -> bool:
    """Whether a flow that can't run as a stream may run as a view's query over the present rows of its tables.

    It is the only flow into its target, and it reads each table from its first row, so the tables have all its rows.

    Args:
        error: the error of the stream.
        dataset: the target.
        flow: the flow.
        reads: the reads of its query.
    """
    is_grouped = error.condition == "STREAMING_AGGREGATION_WITHOUT_WATERMARK"
    if not is_grouped or dataset.kind not in _TABLES or flow.name != dataset.name or flow.cdc is not None:
        return False
    options = {name.lower() for read in reads if read.streaming for name, _ in read.options}
    return options <= _OF_SPEED
