"""The destination of a flow's events."""

from __future__ import annotations

from dataclasses import dataclass

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.transaction_identifiers import Batch
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A target, its two tables, and the flow that writes to them.

    Args:
        target: the planned target.
        table: the target's Delta table, which exists with `target.table_schema`.
        auxiliary: the address of the auxiliary table, which is created when it is first needed.
        flow: the flow's name.
        application_id: unique to the flow and its checkpoint generation.
        truncates: whether the flow's events may be truncates.
    """

    target: CdcTarget
    table: TableAddress
    auxiliary: TableAddress
    flow: QualifiedName
    application_id: str
    truncates: bool

    def batch(self, number: int) -> Batch:
        """Return the transaction identifier of a batch of the flow."""
        return Batch(application_id=self.application_id, number=number)
