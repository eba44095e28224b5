"""Diff of a snapshot and its target: new, changed and missing rows become events at the snapshot's version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.apply import apply_events
from framework.cdc.events.batch_validation import BatchCounts, check_contract
from framework.cdc.events.leaf_columns import assembled, event_names, value_names, wrote_names
from framework.cdc.events.normalize import DELETE, OPERATION, ORDER, align_sequence, read_events
from framework.cdc.initial_load import may_load
from framework.cdc.model.columns import column
from framework.cdc.model.equality import comparable
from framework.cdc.model.reserved_names import SEQUENCE
from framework.cdc.scd1.flagged_rows import is_flagged
from framework.cdc.scd2.known_events import ended_at
from framework.engine.delta.table_version import read_table
from framework.engine.sessions.execution import computed_once
from framework.foundation.errors import OperationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.delta.destination import Destination
    from framework.cdc.model.metrics import CdcMetrics
    from framework.cdc.model.snapshot_versions import SnapshotVersion
    from framework.declare.specs import AutoCdcSpec

_IS_IN_SNAPSHOT = "__sluice_is_in_snapshot"
_OLD = "__sluice_old"
_ROWS = "__sluice_rows"


def apply_snapshot(
    snapshot: DataFrame, spec: AutoCdcSpec, destination: Destination, version: SnapshotVersion, ordinal: int
) -> CdcMetrics:
    """Make the target's open (or unflagged) rows equal to the snapshot; unchanged rows are not written.

    Args:
        snapshot: all rows of the source.
        spec: the flow's declaration.
        destination: the destination: the target, its tables and the flow.
        version: the snapshot's version, which is the sequence of its changes.
        ordinal: the snapshot's transaction number, which the target takes once.

    Raises:
        OperationError: a key is null or occurs twice; nothing has been written.
    """
    ordered = replace(spec, sequence_by=version.sql)
    with computed_once(read_events(snapshot, ordered, destination.target, literal=False), at_once=True) as rows:
        _check_keys(rows, destination, ordinal)
        as_rows = rows if may_load(ordered, destination.target) else None
        return apply_events(_changes(rows, version, destination), destination, ordinal, as_rows=as_rows)


def _check_keys(rows: DataFrame, destination: Destination, ordinal: int) -> None:
    """Check a snapshot's contract: keys are unique and not null."""
    keys = [column(key) for key in destination.target.keys]
    whole = F.expr("true")
    for key in keys:
        whole = whole & key.isNotNull()
    counted = F.when(whole, column(_ROWS))
    nulls = [F.coalesce(F.sum(F.when(key.isNull(), column(_ROWS))), F.lit(0)) for key in keys]
    row = (
        rows.groupBy(*keys)
        .agg(F.count(F.lit(1)).alias(_ROWS))
        .agg(
            F.coalesce(F.sum(_ROWS), F.lit(0)).alias("rows"),
            F.array(*nulls).alias("nulls"),
            F.max(counted).alias("most"),
            F.max_by(F.to_json(F.struct(*keys)), counted).alias("key"),
        )
        .first()
    )
    assert row is not None  # an aggregate without groups has one row
    null_keys = dict(zip(destination.target.keys, row["nulls"], strict=True))
    counts = BatchCounts(rows=row["rows"], null_sequences=0, null_keys=null_keys, ranges={})
    check_contract(counts, flow=destination.flow, batch_id=ordinal)
    if row["most"] is not None and row["most"] > 1:
        raise OperationError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.DUPLICATE_KEY_VIOLATION",
            flow=destination.flow,
            count=row["most"],
            key=row["key"],
            keys=", ".join(destination.target.keys),
        )


def _changes(rows: DataFrame, version: SnapshotVersion, destination: Destination) -> DataFrame:
    """Return upserts of the snapshot's rows that the target lacks, and deletes of rows that only the target has."""
    target = destination.target
    table = read_table(rows.sparkSession, destination.table)
    table = table.where(ended_at(target).isNull() if target.scd_type == 2 else ~is_flagged(target))
    displayed = table.select(*(column(key) for key in target.keys), _values(target).alias(_OLD))
    whole = {} if not target.is_authored else assembled(target, [column(name) for name in value_names(target)])
    joined = rows.withColumns({_IS_IN_SNAPSHOT: F.lit(1)} | whole).join(displayed, list(target.keys), "full_outer")
    is_missing = column(_IS_IN_SNAPSHOT).isNull()
    replaced = {
        ORDER: F.when(is_missing, _delete_order(target, version)).otherwise(column(ORDER)),
        OPERATION: F.when(is_missing, F.lit(DELETE)).otherwise(column(OPERATION)),
    }
    replaced |= {name: ~is_missing & column(name) for name in wrote_names(target)}
    changed = joined.where(is_missing | ~column(_OLD).eqNullSafe(_values(target)))
    names = (column(name) for name in event_names(target) if name not in replaced)
    return changed.select(*names, *(value.alias(name) for name, value in replaced.items()))


def _values(target: CdcTarget) -> Column:
    """Return a row's values as one comparable struct, which is not null even if all values are."""
    values = (comparable(column(field.name), field.dataType).alias(field.name) for field in target.value_fields)
    return F.struct(F.lit(1).alias(_IS_IN_SNAPSHOT), *values)


def _delete_order(target: CdcTarget, version: SnapshotVersion) -> Column:
    assert target.sequence_type is not None  # a version is a sequence
    sequence = align_sequence(F.expr(version.sql), version.data_type, target.sequence_type)
    parts = {SEQUENCE: sequence}
    fields = target.order_type.fields
    return F.struct(*(parts.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))
