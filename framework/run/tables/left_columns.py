"""Columns of a table that its definition does not have: users added them, or the code returned them once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.graph.graph import GraphDataset
    from framework.sources.delta.log import LogTip


def left_columns(dataset: GraphDataset, tip: LogTip | None) -> tuple[str, ...]:
    """Return the columns of a table that its definition does not have; a full refresh leaves them out.

    Args:
        dataset: the dataset.
        tip: the end of the table's log; None without a table.
    """
    if tip is None or not tip.schema or not dataset.table_schema:
        return ()
    declared = {name.lower() for name in _names(dataset.table_schema)}
    return tuple(name for name in _names(tip.schema) if name.lower() not in declared)


def _names(schema: str) -> list[str]:
    return [field["name"] for field in json.loads(schema)["fields"]]
