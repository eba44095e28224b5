"""Detection of rows from flows that no longer write to a target: a renamed appending flow reads them a second time."""

from __future__ import annotations

import re

from framework.checkpoints.generations import GenerationStore, checkpoint_path, last_written
from framework.checkpoints.manifest import Generation, GenerationState, Manifest
from framework.checkpoints.offsets import read_planned_at, read_progress
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.declare.specs import DatasetKind
from framework.foundation.clock import milliseconds
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.run.flows.state.application import application_id
from framework.sources.delta.history import batches_in
from framework.sources.delta.log import LogTip

_QUERY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id of a stream, which Spark's sink uses in its transactions."""


def former_flows(
    storage: Storage,
    graph: DataflowGraph,
    dataset: GraphDataset,
    path: str | None,
    *,
    tip: LogTip | None = None,
    after: tuple[Manifest, Generation] | None = None,
) -> tuple[QualifiedName, ...]:
    """Return the flows that are no longer in the code, but whose appended rows are still in a target.

    Args:
        storage: the pipeline's storage.
        graph: the flows that the code has.
        dataset: the target.
        path: the folder of its table; None for a sink.
        tip: the end of the table's log.
        after: only flows that ran a batch after this generation of a flow did; None for all.
    """
    if dataset.cdc is not None or not (dataset.is_sink or dataset.kind is DatasetKind.STREAMING_TABLE):
        return ()
    declared = {flow.spec.name for flow in graph.flows_into(dataset.name)}
    since = -1 if after is None else _last_run(storage, *after) or -1
    may_have = batches_in(storage, path)
    found = []
    for manifest in GenerationStore(storage).list_of(dataset.name):
        if manifest.flow in declared:
            continue
        present = [each for each in manifest.generations if each.is_present]
        wrote = [
            each
            for each in present
            if last_written(storage, manifest, each, may_have) is not None
            or _has_its_batch(graph.pipeline, manifest, each, tip)
        ]
        if any((_last_run(storage, manifest, each) or _became_current(each)) > since for each in wrote):
            found.append(manifest.flow)
    return tuple(found)


def _has_its_batch(pipeline: str, manifest: Manifest, generation: Generation, tip: LogTip | None) -> bool:
    """Whether a table has the rows of a single batch run, which may have died before it was marked complete."""
    return tip is not None and application_id(pipeline, manifest.flow, generation.number) in tip.transactions


def has_unknown_rows(
    storage: Storage, dataset: GraphDataset, tip: LogTip | None, *, after: tuple[Manifest, Generation] | None = None
) -> bool:
    """Whether a table has batches of streams without a manifest: their checkpoints were deleted together with it.

    Args:
        storage: the pipeline's storage.
        dataset: the target.
        tip: the end of its log.
        after: only batches after this generation of a flow ran; None for all.
    """
    streams = {each for each in _recent(storage, dataset, tip, after) if _QUERY.fullmatch(each)}
    if not streams:
        return False
    known = {
        query
        for manifest in GenerationStore(storage).list_of(dataset.name)
        for each in manifest.generations
        for query in (each.query, read_progress(storage, _checkpoint(storage, manifest, each)).query_id)
    }
    return not streams <= known


def has_unknown_refresh(
    storage: Storage,
    pipeline: str,
    dataset: GraphDataset,
    tip: LogTip | None,
    *,
    after: tuple[Manifest, Generation] | None = None,
) -> bool:
    """Whether a full refresh that this storage or the checkpoint does not know replaced a table's rows.

    It was run by a copy of this storage, or before an older backup of this storage, or of the checkpoint alone, was
    restored.

    Args:
        storage: the pipeline's storage.
        pipeline: its name.
        dataset: the target.
        tip: the end of its log.
        after: only a refresh after this generation of a flow ran; None for any.
    """
    last = RebuildStore(storage).read(dataset.name)
    if last is not None and not last.finished:  # the rebuild replaces all rows
        return False
    begin = f"{Rebuild.application(pipeline, dataset.name)}:"
    published = {each for each in _recent(storage, dataset, tip, after) if each.startswith(begin)}
    if last is None or f"{begin}{last.identifier}" not in published:
        return bool(published)
    return (
        after is not None
        and tip is not None
        and _lacks_refresh(tip.transactions[f"{begin}{last.identifier}"][1], last, after)
    )


def _lacks_refresh(published_ms: int, refresh: Rebuild, after: tuple[Manifest, Generation]) -> bool:
    """Whether a generation precedes a full refresh, and its flow lacks the refresh's own generation."""
    manifest, current = after
    known = {each.fingerprint for each in manifest.generations if each.state is not GenerationState.BUILDING}
    return refresh.generation_mark not in known and _became_current(current) < published_ms


def _recent(
    storage: Storage, dataset: GraphDataset, tip: LogTip | None, after: tuple[Manifest, Generation] | None
) -> set[str]:
    """Return the applications that appended to a table after a generation of a flow ran; without one, all."""
    if tip is None or dataset.cdc is not None or dataset.kind is not DatasetKind.STREAMING_TABLE:
        return set()
    since = -1 if after is None else _last_run(storage, *after) or -1
    return {each for each, (_, time) in tip.transactions.items() if time > since}


def _checkpoint(storage: Storage, manifest: Manifest, generation: Generation) -> str:
    return checkpoint_path(storage, manifest.dataset, manifest.flow, generation.number)


def _last_run(storage: Storage, manifest: Manifest, generation: Generation) -> int | None:
    """Return when a generation's last batch was planned; None if it has none, as a once flow with a batch source."""
    checkpoint = _checkpoint(storage, manifest, generation)
    last = read_progress(storage, checkpoint).last_offset_batch
    return None if last is None else read_planned_at(storage, checkpoint, last)


def _became_current(generation: Generation) -> int:
    return milliseconds(generation.current_since or generation.begun_at)
