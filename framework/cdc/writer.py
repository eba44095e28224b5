"""The writer of one AUTO CDC flow: the body of its `foreachBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.analysis.rules import check_expressions
from framework.cdc.analysis.target_schema import CdcTarget, raise_all
from framework.cdc.apply import apply_events
from framework.cdc.delta.auxiliary_table import CHECKPOINT_INTERVAL
from framework.cdc.delta.destination import Destination
from framework.cdc.events.normalize import read_events
from framework.cdc.file_load import added_column, load_files
from framework.cdc.initial_load import may_load
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.target_plan import TargetPlan
from framework.cdc.snapshot_diff import apply_snapshot
from framework.cdc.unconfirmed import Missing, delete_unconfirmed
from framework.declare.specs import AutoCdcSpec
from framework.engine.jvm.call_sites import without_call_sites
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from framework.cdc.model.snapshot_versions import SnapshotVersion
    from framework.engine.delta.new_files import NewFile
    from framework.foundation.added_columns import AddedColumn

_WITHOUT_VECTORS = ("delta.enableicebergcompatv1", "delta.enableicebergcompatv2")


def table_properties(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a new target, with deletion vectors unless the user's properties exclude them.

    Args:
        wanted: the user's properties.

    Examples:
        >>> table_properties({"delta.enableIcebergCompatV2": "true"}) == dict([CHECKPOINT_INTERVAL])
        True
    """
    is_without = any(key.lower() in _WITHOUT_VECTORS and value.lower() == "true" for key, value in wanted.items())
    vectors = {} if is_without else {"delta.enableDeletionVectors": "true"}
    return vectors | dict([CHECKPOINT_INTERVAL])


def auxiliary_schema(plan: TargetPlan) -> StructType:
    """Return the schema of the auxiliary table of a target."""
    return CdcTarget.of(plan).auxiliary_schema


class AutoCdcWriter:
    """Applies the micro-batches of one flow to its target and the target's auxiliary table.

    Args:
        target: the planned target.
        flow: the flow's name.
        spec: the flow's declaration.
        table: the target's Delta table, which exists with `target.table_schema`.
        auxiliary: the address of the auxiliary table, which is created when it is first needed.
        application_id: unique to the flow and its checkpoint generation. A new generation restarts the batch numbers,
            and its batches must not be mistaken for batches of the previous generation.
    """

    def __init__(
        self,
        *,
        target: CdcTarget,
        flow: QualifiedName,
        spec: AutoCdcSpec,
        table: TableAddress,
        auxiliary: TableAddress,
        application_id: str,
    ) -> None:
        self._spec = spec
        self._checked: StructType | None = None
        self._destination = Destination(
            target=target,
            table=table,
            auxiliary=auxiliary,
            flow=flow,
            application_id=application_id,
            truncates=spec.apply_as_truncates is not None,
        )

    def apply(self, batch: DataFrame, batch_id: int, *, observed: bool = False) -> CdcMetrics:
        """Apply a batch; applying it again, whole or after a crash at any point, changes nothing.

        Args:
            batch: rows of the flow's source.
            batch_id: the batch's number in the flow's checkpoint.
            observed: a listener waits for the metrics that the batch's query observes (a stream reports them itself).

        Raises:
            UserError: an expression of the flow is not a function of the row.
            OperationError: AUTOCDC_MICROBATCH_VALIDATION.*, with counts, before anything is committed.
        """
        with without_call_sites():
            return self._apply(batch, batch_id, observed=observed)

    def _apply(self, batch: DataFrame, batch_id: int, *, observed: bool) -> CdcMetrics:
        if self._checked != batch.schema:
            raise_all(list(check_expressions(self._input(batch))))
            self._checked = batch.schema
        target = self._destination.target
        literal = self._destination.flow in target.literal_flows
        events = read_events(batch, self._spec, target, literal=literal)
        as_rows = events if may_load(self._spec, target) else None
        return apply_events(events, self._destination, batch_id, observed=observed, as_rows=as_rows)

    def added_column(self, rows: DataFrame) -> AddedColumn | None:
        """Return the column that turns source rows into target rows; see `file_load`.

        Args:
            rows: the flow's query over an empty relation that Spark can't recognize as empty.
        """
        target = self._destination.target
        literal = self._destination.flow in target.literal_flows
        return added_column(rows, self._spec, target, literal=literal)

    def load_files(self, session: SparkSession, files: Sequence[NewFile], batch_id: int) -> CdcMetrics | None:
        """Apply a batch as files that have the added column; None if it must be applied as rows.

        Args:
            session: the flow's session.
            files: in the folder of the target.
            batch_id: the batch's number in the flow's checkpoint.
        """
        return load_files(session, files, self._destination, batch_id)

    def _input(self, batch: DataFrame) -> CdcInput:
        return CdcInput(name=self._destination.flow, spec=self._spec, once=False, location=None, source=batch)

    def apply_snapshot(self, snapshot: DataFrame, version: SnapshotVersion, ordinal: int) -> CdcMetrics:
        """Apply a snapshot; applying it again, whole or after a crash at any point, changes nothing.

        Raises:
            OperationError: a key is null or occurs twice; nothing has been written.
        """
        return apply_snapshot(snapshot, self._spec, self._destination, version, ordinal)

    def delete_unconfirmed(
        self, session: SparkSession, sequence: str, *, where: str | None, missing: Missing
    ) -> CdcMetrics:
        """Delete the rows that a complete snapshot did not confirm; see `framework.cdc.unconfirmed`.

        Args:
            session: the flow's session.
            sequence: the sequence of the snapshot's rows, in SQL.
            where: the condition that selected the snapshot's rows; None if it read all rows.
            missing: looks up keys at the source.
        """
        with without_call_sites():
            return delete_unconfirmed(session, self._destination, sequence, where=where, missing=missing)
