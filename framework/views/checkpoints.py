"""The generations of checkpoints, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from framework.checkpoints.generations import CheckpointOverview
from framework.foundation.names import ShortNames
from framework.views.table import Column, Table

_COLUMNS = (
    Column(name="dataset", wraps=False),
    Column(name="flow", wraps=False),
    Column(name="generation", right=True),
    Column(name="state"),
    Column(name="batches", right=True),
    Column(name="begun", wraps=False),
    Column(name="reason"),
)


def checkpoints_table(checkpoints: Sequence[CheckpointOverview]) -> Table:
    """Return one row for each generation; the column `batches` has the number of committed batches."""
    short = ShortNames.of(name for each in checkpoints for name in (each.dataset, each.flow))
    return Table.of(
        _COLUMNS,
        [
            (
                short(each.dataset),
                short(each.flow),
                str(each.generation.number),
                f"{each.generation.state.value}{', complete' if each.generation.completed else ''}",
                str(_batches(each)),
                each.generation.begun_at.replace("T", " ").partition(".")[0],
                each.generation.reason,
            )
            for each in checkpoints
        ],
    )


def checkpoints_json(checkpoints: Sequence[CheckpointOverview]) -> list[dict[str, Any]]:
    """Return the generations as JSON values, with full names and the last committed offsets of their sources."""
    return [
        {
            "dataset": str(each.dataset),
            "flow": str(each.flow),
            **asdict(each.generation),
            "path": each.path,
            "batches": _batches(each),
            "sources": list(each.progress.sources),
        }
        for each in checkpoints
    ]


def _batches(checkpoint: CheckpointOverview) -> int:
    last = checkpoint.progress.last_commit_batch
    return 0 if last is None else last + 1
