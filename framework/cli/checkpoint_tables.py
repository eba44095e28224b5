"""Generations of checkpoints as rows and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from framework.checkpoints.generations import CheckpointOverview
from framework.foundation.names import ShortNames

COLUMNS = ("dataset", "flow", "generation", "state", "batches", "begun", "reason")


def checkpoint_rows(checkpoints: Sequence[CheckpointOverview]) -> list[dict[str, Any]]:
    """Return a row per generation; `batches` is the number of committed batches."""
    short = ShortNames.of(name for each in checkpoints for name in (each.dataset, each.flow))
    return [
        {
            "dataset": short(each.dataset),
            "flow": short(each.flow),
            "generation": each.generation.number,
            "state": f"{each.generation.state.value}{', complete' if each.generation.completed else ''}",
            "batches": _batches(each),
            "begun": each.generation.begun_at.replace("T", " ").partition(".")[0],
            "reason": each.generation.reason,
        }
        for each in checkpoints
    ]


def checkpoint_json(checkpoint: CheckpointOverview) -> dict[str, Any]:
    """Return one generation as JSON values, with full names and the last committed offsets of its sources."""
    generation = asdict(checkpoint.generation)
    progress = checkpoint.progress
    return {
        "dataset": str(checkpoint.dataset),
        "flow": str(checkpoint.flow),
        **generation,
        "path": checkpoint.path,
        "batches": _batches(checkpoint),
        "sources": list(progress.sources),
    }


def _batches(checkpoint: CheckpointOverview) -> int:
    last = checkpoint.progress.last_commit_batch
    return 0 if last is None else last + 1
