"""Detection of targets with batches that a stream's checkpoint lacks, so that they would skip the next batches."""

from __future__ import annotations

from collections.abc import Mapping

from framework.checkpoints.manifest import Generation
from framework.checkpoints.offsets import CheckpointProgress
from framework.declare.specs import DatasetSpec
from framework.foundation.files.storage_port import Storage
from framework.graph.graph import GraphFlow
from framework.run.flows.state.application import application_id
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import LogTip
from framework.sources.delta.source import begin_of
from framework.sources.starts import SourceStart, is_at_end, parse_starts, start_of


def sink_folder(spec: DatasetSpec) -> str | None:
    """Return the folder of a Delta sink; None for any other sink, whose state is unknown."""
    options = {name.lower(): value for name, value in spec.options}
    is_own = "txnappid" in options  # the user chooses the names and numbers of its batches
    return options.get("path") if (spec.format or "").lower() == "delta" and not is_own else None


def is_ahead(
    storage: Storage,
    path: str | None,
    tip: LogTip | None,
    *,
    pipeline: str,
    flow: GraphFlow,
    generation: Generation,
    progress: CheckpointProgress,
) -> bool:
    """Return whether a table has batches of a generation that are not in its checkpoint.

    Args:
        storage: reads the log.
        path: the folder of the table; None for a target without a table.
        tip: the end of its log; None if there is no table.
        pipeline: the pipeline's name.
        flow: the flow.
        generation: the generation.
        progress: the batches of its checkpoint.
    """
    ids = {progress.query_id or "", generation.query} - {""}
    if flow.spec.cdc is not None:
        ids = {application_id(pipeline, flow.spec.name, generation.number)}
    planned = -1 if progress.last_offset_batch is None else progress.last_offset_batch
    if path is None or tip is None or not ids:
        return False
    if tip.transactions:
        return any(tip.transactions.get(each, (-1, 0))[0] > planned for each in ids)
    history = CommitHistory(storage, path)
    taken = history.last_taken(ids, history.versions[-1]) if history.versions else None
    if taken is not None:
        return taken[2] > planned
    # Commits with its batches, if any, are no longer in the log. A stream with an id has run.
    return planned < 0 and bool(generation.query) and history.versions[:1] != [0]


def has_lost_start(flow: GraphFlow, generation: Generation, progress: CheckpointProgress) -> bool:
    """Return whether a stream that began with new rows only has lost its checkpoint, possibly before its first batch.

    Its start was only in the checkpoint: it would begin at the present end and skip the rows in between.
    """
    is_gone = bool(generation.query) and progress.query_id is None
    return is_gone and begins_late(flow, parse_starts(generation.start))


def begins_late(flow: GraphFlow, starts: Mapping[str, SourceStart] | None = None) -> bool:
    """Return whether a stream without a position skips existing rows, including the latest ones.

    Args:
        flow: the flow.
        starts: where its generation starts, by source name, instead of the start in the code.
    """
    begins = [
        (str(read.dataset or read.text), read.begins or begin_of(dict(read.options)))
        for read in flow.reads
        if read.streaming
    ]
    begins += [(source.location or source.kind, source.begins) for source in flow.sources]
    found = [(begin, start_of(starts or {}, name, begin)) for name, begin in begins]
    return any(is_at_end(begin if start is None else start.text) for begin, start in found)
