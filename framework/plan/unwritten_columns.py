"""Columns of a streaming table that no flow writes any more."""

from __future__ import annotations

import json
from typing import Any

from framework.cdc.model.reserved_names import END_AT, START_AT
from framework.declare.specs import DatasetKind
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow


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
    written = {name.lower() for flow in flows for name in _written(flow)} | {START_AT.lower(), END_AT.lower()}
    found: list[str] = []
    for column in _columns(json.loads(dataset.schema)):
        outermost = not any(column.startswith(f"{other}.") for other in found)
        if column.lower() not in written and outermost:
            found.append(column)
    return tuple(found)


def _written(flow: GraphFlow) -> list[str]:
    """Return the columns of a flow's query; for AUTO CDC, the selected ones."""
    columns = list(_columns(json.loads(flow.schema or "{}")))
    if flow.spec.cdc is None or flow.spec.cdc.columns.columns is None:
        return columns
    selection, keys = flow.spec.cdc.columns, {key.lower() for key in flow.spec.cdc.keys}
    named = {column.lower() for column in selection.columns or ()}
    tops = [(column, column.split(".", maxsplit=1)[0].lower()) for column in columns]
    return [column for column, top in tops if top in keys or (top in named) != selection.excluded]


def _columns(schema: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for field in schema.get("fields", ()):
        path = f"{prefix}{field['name']}"
        found += [path, *_below(field["type"], path)]
    return found


def _below(data_type: Any, path: str) -> list[str]:
    """Return the fields of a column's type by their path, which names the parts of arrays and maps as Delta does."""
    match data_type:
        case {"type": "struct"}:
            return _columns(data_type, f"{path}.")
        case {"type": "array", "elementType": element}:
            return _below(element, f"{path}.element")
        case {"type": "map", "keyType": key, "valueType": value}:
            return [*_below(key, f"{path}.key"), *_below(value, f"{path}.value")]
        case _:
            return []
