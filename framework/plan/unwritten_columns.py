"""Columns of a streaming table that no flow writes any more."""

from __future__ import annotations

import json
from typing import Any

from framework.cdc.model.reserved_names import END_AT, START_AT
from framework.declare.specs import DatasetKind
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow

_Path = tuple[str, ...]


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
    written = {_folded(path) for flow in flows for path in _written(flow)} | {(START_AT.lower(),), (END_AT.lower(),)}
    found: list[_Path] = []
    for path in _columns(json.loads(dataset.schema)):
        outermost = not any(path[: len(other)] == other for other in found)
        if _folded(path) not in written and outermost:
            found.append(path)
    return tuple(".".join(path) for path in found)


def _written(flow: GraphFlow) -> list[_Path]:
    """Return the columns of a flow's query; for AUTO CDC, the selected ones."""
    columns = _columns(json.loads(flow.schema or "{}"))
    if flow.spec.cdc is None or flow.spec.cdc.columns.columns is None:
        return columns
    selection, keys = flow.spec.cdc.columns, {key.lower() for key in flow.spec.cdc.keys}
    named = {column.lower() for column in selection.columns or ()}
    tops = [(path, path[0].lower()) for path in columns]
    return [path for path, top in tops if top in keys or (top in named) != selection.excluded]


def _folded(path: _Path) -> _Path:
    return tuple(part.lower() for part in path)


def _columns(schema: dict[str, Any], above: _Path = ()) -> list[_Path]:
    found = []
    for field in schema.get("fields", ()):
        path = (*above, field["name"])
        found += [path, *_below(field["type"], path)]
    return found


def _below(data_type: Any, path: _Path) -> list[_Path]:
    """Return the fields of a column's type by their path, which names the parts of arrays and maps as Delta does."""
    match data_type:
        case {"type": "struct"}:
            return _columns(data_type, path)
        case {"type": "array", "elementType": element}:
            return _below(element, (*path, "element"))
        case {"type": "map", "keyType": key, "valueType": value}:
            return [*_below(key, (*path, "key")), *_below(value, (*path, "value"))]
        case _:
            return []
