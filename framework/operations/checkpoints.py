"""Resets of a pipeline's flows, and deletion of table backups."""

from __future__ import annotations

from collections.abc import Sequence

from framework.checkpoints.backups import Backup
from framework.checkpoints.generations import Generation
from framework.checkpoints.manifest import Manifest
from framework.foundation.names import QualifiedName
from framework.operations.pipeline_port import PipelinePort
from framework.recovery.backups import BackupSelection, drop_backups
from framework.run.update.checkpoint_actions import reset_checkpoint


def reset_flow(
    pipeline: PipelinePort, flow: str, starts: Sequence[str] = (), *, target: str | None = None
) -> tuple[Manifest, Generation | None]:
    """Request a new generation of a flow at the next update, from `starts` or else where its code says.

    Returns:
        The manifest of the flow and its new generation. The generation is None if a continuous update is running; it
        then begins the generation as soon as the flow does not run.

    Raises:
        SluiceError: as of `reset_checkpoint`; a start is invalid, or its source does not have it.
    """
    return reset_checkpoint(
        pipeline.storage, pipeline.name, flow, lambda name: pipeline.starts_of(name, starts), target=target
    )


def drop_table_backups(pipeline: PipelinePort, table: str, number: int | None = None) -> tuple[Backup, ...]:
    """Delete the backups of a table, or the one with a number; return the deleted backups.

    Raises:
        SluiceError: as of `drop_backups`; INVALID_NAME.
    """
    name = QualifiedName.parse(table, catalog=pipeline.spec.catalog, schema=pipeline.spec.schema)
    return drop_backups(pipeline.storage, pipeline.name, BackupSelection(dataset=name, number=number))
