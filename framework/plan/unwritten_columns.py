"""Columns of a streaming table that no flow writes any more."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from framework.cdc.model.reserved_names import END_AT, START_AT
from framework.declare.specs import DatasetKind
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.schema.change import schema_change

_Path = tuple[str, ...]
_OF_HISTORY = {START_AT.lower(), END_AT.lower()}
"""The columns that AUTO CDC adds to the columns of its flows, for SCD type 2."""


def unwritten_columns(graph: DataflowGraph, dataset: GraphDataset) -> tuple[str, ...]:
    """Return the visible columns that no flow writes, nested ones by their path, in the table's order.

    A streaming table keeps a column that its query no longer returns; a materialized view does not.
    """
    flows = graph.flows_into(dataset.name)
    if (
        dataset.kind is not DatasetKind.STREAMING_TABLE
        or dataset.schema is None
        or any(f.schema is None for f in flows)
    ):
        return ()
    table = json.loads(dataset.schema)
    missing = [[each.path for each in schema_change(table, _written(flow)).dropped] for flow in flows]
    found = {path for paths in missing for path in paths if all(_is_within(path, others) for others in missing)}
    names = [field["name"] for field in table["fields"] if field["name"].lower() not in _OF_HISTORY]
    in_order = dict.fromkeys(path for name in names for paths in missing for path in paths if path[0] == name)
    return tuple(".".join(path) for path in in_order if path in found)


def _is_within(path: _Path, columns: Collection[_Path]) -> bool:
    """Whether a field is one of these columns, or nested in one."""
    return any(path[: len(each)] == each for each in columns)


def _written(flow: GraphFlow) -> dict[str, Any]:
    """Return the columns of a flow's query, as the JSON of a struct; for AUTO CDC, the selected ones."""
    fields = json.loads(flow.schema or "{}").get("fields", [])
    if flow.spec.cdc is None or flow.spec.cdc.columns.columns is None:
        return {"fields": fields}
    selection, keys = flow.spec.cdc.columns, {key.lower() for key in flow.spec.cdc.keys}
    named = {column.lower() for column in selection.columns or ()}
    tops = [(field, field["name"].lower()) for field in fields]
    return {"fields": [field for field, top in tops if top in keys or (top in named) != selection.excluded]}
