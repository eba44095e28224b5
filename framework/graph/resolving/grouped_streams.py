"""Streams that are grouped without a watermark: their tables are materialized views of the same rows.

Databricks runs such a stream in Spark's complete mode, which replaces the rows of the table in each batch (ADR 74).
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
    """Whether a flow that can't run as a stream may be the query of a view that reads its tables as they are.

    Its target has no other query, and it begins at the first row of each table: all rows are in the tables then.

    Args:
        error: the error of the stream.
        dataset: the target.
        flow: the flow.
        reads: what its query reads.
    """
    is_grouped = error.condition == "STREAMING_AGGREGATION_WITHOUT_WATERMARK"
    if not is_grouped or dataset.kind not in _TABLES or flow.name != dataset.name or flow.cdc is not None:
        return False
    options = {name.lower() for read in reads if read.streaming for name, _ in read.options}
    return options <= _OF_SPEED
