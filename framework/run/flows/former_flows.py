"""Rows of flows that no longer write to a target: a flow that appends under another name reads them a second time."""

from __future__ import annotations

from framework.checkpoints.generations import GenerationStore, checkpoint_path, last_written
from framework.checkpoints.manifest import Generation, Manifest
from framework.checkpoints.offsets import read_planned_at, read_progress
from framework.declare.specs import DatasetKind
from framework.foundation.clock import milliseconds
from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.sources.delta.history import batches_in


def former_flows(
    storage: Storage, graph: DataflowGraph, dataset: GraphDataset, path: str | None, *,
    after: tuple[Manifest, Generation] | None = None,
) -> tuple[QualifiedName, ...]:  # fmt: skip
    """Return the flows that the code no longer has, and whose appended rows are still in a target.

    Args:
        storage: the pipeline's storage.
        graph: the flows that the code has.
        dataset: the target.
        path: the folder of its table; None for a sink.
        after: only those that have run a batch since this generation of a flow did; None for all.
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
        wrote = [each for each in present if last_written(storage, manifest, each, may_have) is not None]
        if any((_last_run(storage, manifest, each) or _became_current(each)) > since for each in wrote):
            found.append(manifest.flow)
    return tuple(found)


def _last_run(storage: Storage, manifest: Manifest, generation: Generation) -> int | None:
    """Return when the last batch of a generation was planned; None if it has none, as a once flow over a batch."""
    checkpoint = checkpoint_path(storage, manifest.dataset, manifest.flow, generation.number)
    last = read_progress(storage, checkpoint).last_offset_batch
    return None if last is None else read_planned_at(storage, checkpoint, last)


def _became_current(generation: Generation) -> int:
    return milliseconds(generation.current_since or generation.begun_at)
