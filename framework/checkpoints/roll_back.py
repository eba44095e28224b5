"""The generations that a roll-back can go back to."""

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
    """Return the generation for a roll-back, the kept one that was current last; None if there is none.

    Args:
        manifest: of the flow.
        appends: whether the flow appends its rows, so that rows which it reads twice are twice in the table.
        numbers: the numbers to choose from; None for all.
        storage: passes over generations that have read nothing, which would begin again, if another one has; None
            takes them as the others.
    """
    fitting = [
        each for each in kept_generations(manifest, appends=appends) if numbers is None or each.number in numbers
    ]
    if storage is not None and len(fitting) > 1:
        fitting = [each for each in fitting if _has_read(storage, manifest, each)] or fitting
    return max(fitting, key=lambda each: (each.current_since or "", each.number), default=None)


def kept_generations(manifest: Manifest, *, appends: bool) -> list[Generation]:
    """Return the kept generations that a flow can continue from.

    The rows of one that is undone have left the table, and would be lost. A full refresh has read the rows again that
    come after an earlier generation: AUTO CDC can take them twice, an append would double them.
    """
    kept = [each for each in manifest.generations if each.state is GenerationState.KEPT and not each.undone_by]
    refresh = last_refresh(manifest) if appends else None
    return [each for each in kept if refresh is None or each.number >= refresh.number]


def written_since(
    storage: Storage, manifest: Manifest, chosen: Generation, may_have: MayHave = may_have_any
) -> list[Generation]:
    """Return the generations that may have written rows since a kept one was current, oldest first.

    A flow that continues the kept one reads from its position on again what they have read. If the kept one has read
    nothing, it begins again, and all of them count. A once flow that is complete reads nothing again, but it may have
    become a stream.

    Args:
        storage: the pipeline's storage.
        manifest: of the flow.
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
    """Whether a generation has a batch, so that it goes on behind rows."""
    path = checkpoint_path(storage, manifest.dataset, manifest.flow, generation.number)
    return generation.completed or read_progress(storage, path).last_offset_batch is not None
