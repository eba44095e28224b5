"""The origin of a stored table's rows: a view's query, appends, or merges by key."""

from __future__ import annotations

import json

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.declare.specs import DatasetKind
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset
from framework.plan.state import TableKind
from framework.run.tables.table_record import TableRecord
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import LogTip, last_user_metadata, latest_version


def stored_kind(
    storage: Storage, name: QualifiedName, path: str, tip: LogTip, record: TableRecord | None
) -> TableKind | None:
    """Return the kind of a dataset's table; None if it is unknown.

    Args:
        storage: the pipeline's storage.
        name: the dataset's name.
        path: the folder of the table.
        tip: the end of its log.
        record: the table's record; None if it has none, as after a crash before it was written.
    """
    schema = tip.schema or (record.schema if record is not None else None)
    if schema and any(field["name"] == HIDDEN_COLUMN for field in json.loads(schema)["fields"]):
        return TableKind.AUTO_CDC_TARGET
    if record is not None:
        return record.kind
    # A view's last commit has a mark, and no flow appends to a view.
    mark = last_user_metadata(storage, path)
    if mark is not None and "computed_from" in mark.content:
        return TableKind.MATERIALIZED_VIEW
    manifests = GenerationStore(storage).list_of(name)
    is_written = any(manifest.in_state(GenerationState.CURRENT) is not None for manifest in manifests)
    return TableKind.STREAMING_TABLE if is_written else None


def view_fingerprint(storage: Storage, path: str) -> str | None:
    """Return the fingerprint of the inputs from which a view's rows were computed.

    Returns:
        None if it was unknown at the time, or if other writers have changed the rows since.
    """
    mark, latest = last_user_metadata(storage, path), latest_version(storage, path)
    if mark is None or latest is None:
        return None
    if latest > mark.version and CommitHistory(storage, path).changes_between(mark.version, latest):
        return None
    fingerprint: str | None = mark.content.get("computed_from")
    return fingerprint


def recorded_kind(dataset: GraphDataset) -> TableKind:
    """Return the kind in a table's record; an AUTO CDC target is recognized by its hidden column."""
    is_view = dataset.kind is DatasetKind.MATERIALIZED_VIEW
    return TableKind.MATERIALIZED_VIEW if is_view else TableKind.STREAMING_TABLE
