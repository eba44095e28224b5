"""The writer of one AUTO CDC flow: the body of its `foreachBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.analysis.rules import check_expressions
from framework.cdc.analysis.target_schema import CdcTarget, raise_all
from framework.cdc.apply import apply_events
from framework.cdc.delta.auxiliary_table import CHECKPOINT_INTERVAL
from framework.cdc.delta.destination import Place
from framework.cdc.events.normalize import read_events
from framework.cdc.initial_load import may_load
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.snapshot_diff import apply_snapshot
from framework.declare.specs import AutoCdcSpec
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from framework.cdc.model.snapshot_versions import SnapshotVersion

TABLE_PROPERTIES: tuple[tuple[str, str], ...] = (("delta.enableDeletionVectors", "true"), CHECKPOINT_INTERVAL)
"""What the engine should create a target with, where the user says nothing else."""


class AutoCdcWriter:
    """Applies the micro-batches of one flow to its target and the companion beside it.

    Args:
        target: what the flows of the target make of it.
        flow: the flow's name.
        spec: what the flow declares.
        table: the target's Delta table, which exists with `target.table_schema`.
        companion: where the companion is; created when there is something to remember.
        application_id: the flow's and its checkpoint generation's own; batches are numbered anew in
            a new generation, and must not be taken for those of the last one.
    """

    def __init__(
        self,
        *,
        target: CdcTarget,
        flow: QualifiedName,
        spec: AutoCdcSpec,
        table: TableAddress,
        companion: TableAddress,
        application_id: str,
    ) -> None:
        self._spec = spec
        self._checked: StructType | None = None
        self._place = Place(
            target=target,
            table=table,
            companion=companion,
            flow=flow,
            application_id=application_id,
            truncates=spec.apply_as_truncates is not None,
        )

    def apply(self, batch: DataFrame, batch_id: int, *, observed: bool = False) -> CdcMetrics:
        """Apply a batch; applying it again, whole or after a crash at any point, changes nothing.

        Args:
            batch: rows of the flow's source.
            batch_id: the batch's number in the flow's checkpoint.
            observed: a listener waits for what the batch's query observes (a stream reports that itself).

        Raises:
            UserError: an expression of the flow is not a function of the row.
            OperationError: AUTOCDC_MICROBATCH_VALIDATION.*, with counts, before anything is written.
        """
        if self._checked != batch.schema:
            raise_all(list(check_expressions(self._input(batch))))
            self._checked = batch.schema
        target = self._place.target
        literal = self._place.flow in target.literal_flows
        events = read_events(batch, self._spec, target, literal=literal)
        as_rows = events if may_load(self._spec, target) else None
        return apply_events(events, self._place, batch_id, observed=observed, as_rows=as_rows)

    def _input(self, batch: DataFrame) -> CdcInput:
        return CdcInput(name=self._place.flow, spec=self._spec, once=False, location=None, source=batch)

    def apply_snapshot(self, snapshot: DataFrame, version: SnapshotVersion, ordinal: int) -> CdcMetrics:
        """Apply a snapshot; applying it again, whole or after a crash at any point, changes nothing.

        Raises:
            OperationError: a key is null or comes twice, before anything is written.
        """
        return apply_snapshot(snapshot, self._spec, self._place, version, ordinal)
