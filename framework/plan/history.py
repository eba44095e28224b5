"""Which tables can keep their history in a full refresh: rows that their sources no longer have."""

from __future__ import annotations

import json
from collections.abc import Sequence

from framework.declare.specs import DatasetKind
from framework.foundation.computed_columns import IDENTITY
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.request import UpdateRequest
from framework.sources.databases.source import ChangesSource, SnapshotSource

ALL_COLUMNS = ("*",)
"""The history keys of an append table whose rows are compared by all columns; valid only if its code is unchanged."""

_DATABASES = frozenset({ChangesSource.kind, SnapshotSource.kind})


def history_faults(graph: DataflowGraph, request: UpdateRequest) -> list[SluiceError]:
    """Return why a request can't keep the history of the tables that it rebuilds; all faults at once."""
    if not request.keep_history:
        return [UserError("HISTORY_KEYS_WITHOUT_HISTORY")] if request.history_keys else []
    if not request.full_refresh:
        return [UserError("HISTORY_WITHOUT_TABLE")]
    faults: list[SluiceError] = []
    for name in request.full_refresh:
        dataset = graph.dataset(name)
        if dataset is None:
            continue
        reason = why_no_history(dataset, graph.flows_into(name))
        if reason:
            faults.append(UserError("HISTORY_NOT_KEPT", location=dataset.spec.location, dataset=name, reason=reason))
        else:
            faults.extend(_key_faults(dataset, request.history_keys))
    return faults + _unused_keys(graph, request)


def why_no_history(dataset: GraphDataset, flows: Sequence[GraphFlow]) -> str:
    """Return why a full refresh can't put rows back into the target of these flows, as a clause; empty if it can."""
    if dataset.kind is not DatasetKind.STREAMING_TABLE:
        is_view = dataset.kind is DatasetKind.MATERIALIZED_VIEW
        return "a materialized view has only the rows of its query" if is_view else "it is not a streaming table"
    if any(flow.spec.from_snapshots for flow in flows):
        # The history would keep a row whose key the source has deleted.
        return "it compares snapshots, and a row that is missing from the next snapshot is deleted"
    if any(source.kind in _DATABASES for flow in flows for source in flow.sources):
        # Rows of a new snapshot sort before all changes, so an old row would win over the row of the newer snapshot.
        return "it copies a database, which has all rows; `sluice ingest resync` copies one of its tables again"
    if f'"{IDENTITY}' in (dataset.table_schema or ""):
        return "it has an identity column, whose numbers Delta gives to each row again"
    return ""


def _unused_keys(graph: DataflowGraph, request: UpdateRequest) -> list[SluiceError]:
    """Return the error of history keys for AUTO CDC targets only, which have their own keys."""
    found = [dataset for name in request.full_refresh if (dataset := graph.dataset(name)) is not None]
    targets = [dataset for dataset in found if dataset.cdc is not None]
    if not request.history_keys or not targets or len(targets) < len(found):
        return []
    first = targets[0]
    assert first.cdc is not None
    keys = ", ".join(first.cdc.keys)
    return [UserError("HISTORY_KEYS_OF_AUTO_CDC", location=first.spec.location, dataset=first.name, keys=keys)]


def _key_faults(dataset: GraphDataset, keys: tuple[str, ...]) -> list[SluiceError]:
    location = dataset.spec.location
    if dataset.cdc is not None or keys == ALL_COLUMNS:
        return []
    if not keys:
        # The code that wrote the rows is unknown. If it has changed, all old rows look like rows that the sources lost.
        return [UserError("HISTORY_NEEDS_KEYS", location=location, dataset=dataset.name)]
    columns = [field["name"] for field in json.loads(dataset.schema or "{}").get("fields", ())]
    known = {column.lower() for column in columns}
    return [
        UserError(
            "HISTORY_KEY_NOT_FOUND",
            location=location,
            dataset=dataset.name,
            column=key,
            hint=nearest_hint(key, columns),
        )
        for key in keys
        if key.lower() not in known
    ]
