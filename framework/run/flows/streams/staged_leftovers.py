"""Cleanup of staged files that no commit refers to, in the table's folder and in the flow's own folder.

It is used by every run of a flow that reads a snapshot, even if it stages no files, because an earlier run may have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from framework.checkpoints.offsets import read_progress
from framework.engine.delta.table_version import can_open
from framework.foundation.table_address import TableAddress
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.reads import FlowQuery
from framework.run.tables.appended_files import delete_leftovers
from framework.sources.kinds import streamed_sources
from framework.sources.staging.stream import STAGED_KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StagedLeftovers:
    """Deletes the staged files of earlier attempts.

    Args:
        run: the run of the flow.
        session: the session of the query.
        query: the flow's query.
    """

    def __init__(self, run: FlowRun, session: SparkSession, query: FlowQuery) -> None:
        self._run = run
        self._session = session
        kinds = {source.kind for source in streamed_sources(query.frame)}
        self._is_due = run.dataset.is_table and not STAGED_KINDS.isdisjoint(kinds)
        name = f"{run.context.pipeline}:{run.step.flow}"
        self.prefix = f"snapshot-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        self.folder = run.context.store.layout.staged(run.dataset.name, run.flow.spec.name)
        """The flow's own folder."""

    def begin(self) -> None:
        """Delete the flow's own folder, whose files are never part of a commit."""
        if self._is_due:
            self._run.storage.delete_tree(self.folder)

    def clean(self, number: int, kept: Collection[str] = ()) -> None:
        """Delete the files in the table's folder that no commit refers to, once.

        Args:
            number: a batch whose transaction identifier the table has, so that no other attempt can commit it.
            kept: the names of files that are known to belong to the table.
        """
        table = TableAddress(path=self._run.path)
        if not self._is_due:
            return
        if can_open(table) and not delete_leftovers(
            self._session, self._run.storage, table, self.prefix, kept=kept, is_safe=lambda: self._is_last(number)
        ):
            return
        self._is_due = False

    def _is_last(self, number: int) -> bool:
        """Whether no later batch is planned; an attempt that saw this batch committed may have files of a later one."""
        planned = read_progress(self._run.storage, self._run.checkpoint).last_offset_batch
        return planned is None or planned <= number

    def renew(self) -> None:
        """Clean again after the next batch."""
        self._is_due = True
