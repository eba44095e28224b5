"""Where a flow's events go."""

from __future__ import annotations

from dataclasses import dataclass

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.transaction_identifiers import Batch
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A target, its two tables, and who writes to them.

    Args:
        target: what the flows of the target make of it.
        table: the target's Delta table, which exists with `target.table_schema`.
        companion: where the companion is; created when there is something to remember.
        flow: the flow's name.
        application_id: the flow's and its checkpoint generation's own.
        truncates: the flow's events may be truncates.
    """

    target: CdcTarget
    table: TableAddress
    companion: TableAddress
    flow: QualifiedName
    application_id: str
    truncates: bool

    def batch(self, number: int) -> Batch:
        """A batch of the flow, as the tables remember it."""
        return Batch(application_id=self.application_id, number=number)
