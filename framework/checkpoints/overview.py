"""The values that `sluice checkpoints list` displays: each generation of each flow with its progress."""

from __future__ import annotations

from dataclasses import dataclass

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import Generation
from framework.checkpoints.offsets import CheckpointProgress, read_progress
from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOverview:
    """One generation of a flow, with the path and progress of its checkpoint."""

    dataset: QualifiedName
    flow: QualifiedName
    generation: Generation
    path: str
    progress: CheckpointProgress


def list_checkpoints(storage: Storage) -> tuple[CheckpointOverview, ...]:
    """Return all generations of all flows, sorted by dataset, flow and number."""
    store = GenerationStore(storage)
    found = []
    for manifest in store.list_all():
        for generation in manifest.generations:
            path = store.path(manifest.dataset, manifest.flow, generation.number)
            found.append(
                CheckpointOverview(
                    dataset=manifest.dataset,
                    flow=manifest.flow,
                    generation=generation,
                    path=path,
                    progress=read_progress(storage, path),
                )
            )
    return tuple(found)
