"""The selection of a generation to roll back to."""

from __future__ import annotations

from collections.abc import Collection

from framework.checkpoints.generations import MayHave, checkpoint_path, last_written, may_have_any
from framework.checkpoints.manifest import Generation, GenerationState, Manifest
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.rebuilds import last_refresh
from framework.foundation.files.storage_port import Storage


def last_kept(
    manifest: Manifest, *, appends: bool, numbers: Collection[int] | None = None, storage: Storage | None = None
) -> Generation | None:
    """Return the generation to roll back to: the kept one that was current last; None if there is none.

    Args:
        manifest: the flow's manifest.
        appends: whether the flow appends rows, so that a row that it reads twice is in the table twice.
        numbers: the numbers to choose from; None for all.
        storage: if set, a generation that has read something is preferred to one that has read nothing and would begin
            again; None treats all alike.
    """
    fitting = [
        each for each in kept_generations(manifest, appends=appends) if numbers is None or each.number in numbers
    ]
    if storage is not None and len(fitting) > 1:
        fitting = [each for each in fitting if _has_read(storage, manifest, each)] or fitting
    return max(fitting, key=lambda each: (each.current_since or "", each.number), default=None)


def kept_generations(manifest: Manifest, *, appends: bool) -> list[Generation]:
    """Return the kept generations that a flow can continue from.

    The rows of an undone generation have left the table, and would be lost. A full refresh has read all rows after an
    earlier generation again: AUTO CDC can process them twice, but an append would duplicate them.
    """
    kept = [each for each in manifest.generations if each.state is GenerationState.KEPT and not each.undone_by]
    refresh = last_refresh(manifest) if appends else None
    return [each for each in kept if refresh is None or each.number >= refresh.number]


def written_since(
    storage: Storage, manifest: Manifest, chosen: Generation, may_have: MayHave = may_have_any
) -> list[Generation]:
    """Return the generations that may have written rows since a kept generation was current, oldest first.

    A flow that continues the kept generation reads their rows again, from its own position on. If the kept generation
    has read nothing, it begins again, and all of them count. A complete once flow reads nothing again, unless it has
    become a stream.

    Args:
        storage: the pipeline's storage.
        manifest: the flow's manifest.
        chosen: the kept generation.
        may_have: whether the target may have a planned batch that is not committed.
    """
    found = []
    since = chosen.current_since or "" if _has_read(storage, manifest, chosen) else ""
    for each in manifest.generations:
        if each is not chosen and each.is_present:
            wrote = last_written(storage, manifest, each, may_have)
            if wrote is not None and wrote >= since:
                found.append(each)
    return [] if chosen.completed and all(each.completed for each in found) else found


def _has_read(storage: Storage, manifest: Manifest, generation: Generation) -> bool:
    """Whether a generation has a batch, so that it continues after rows that it has read."""
    path = checkpoint_path(storage, manifest.dataset, manifest.flow, generation.number)
    return generation.completed or read_progress(storage, path).last_offset_batch is not None
