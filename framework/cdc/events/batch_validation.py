"""The contract of a batch: required values of its events; violations are counted before the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.key_bounds import KeyRange, Ranges, bounds_of, has_bounds
from framework.cdc.events.normalize import ORDER
from framework.cdc.model.columns import column, is_storable
from framework.cdc.model.reserved_names import ONCE, SEQUENCE
from framework.engine.jvm.java import built_once
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql.types import Row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchCounts:
    """Counts of a batch, from one pass over it.

    Args:
        rows: events of the batch.
        null_sequences: events without a sequence.
        null_keys: per key column, events in which the key is null (truncates need no key).
        unstorable_keys: per key in `text_partitions`, events whose value would change when stored.
        ranges: per key column the bounds of its values; a key whose type has no bounds is absent.
    """

    rows: int
    null_sequences: int
    null_keys: Mapping[str, int]
    ranges: Ranges
    unstorable_keys: Mapping[str, int] = field(default_factory=dict)


def is_unordered(target: CdcTarget, order: Column) -> Column:
    """Return whether an event has no sequence."""
    parts = [order.getField(name).isNull() for name in (SEQUENCE, ONCE) if name in target.order_type.names]
    return parts[0] if len(parts) == 1 else parts[0] & parts[1]


def counting_columns(
    target: CdcTarget, *, rows: Column, null_sequences: Column, keyed: Column, counts: Column
) -> list[Column]:
    """Return the aggregates for `read_counts`.

    Args:
        target: the target with the keys to count.
        rows: the aggregate of the number of events.
        null_sequences: the aggregate of the number of events without a sequence.
        keyed: per row, the number of its events that need a key.
        counts: per row, whether its key counts for the bounds.
    """
    nulls = [F.coalesce(F.sum(F.when(column(key).isNull(), keyed)), F.lit(0)) for key in target.keys]
    return [
        F.coalesce(rows, F.lit(0)).alias("rows"),
        F.coalesce(null_sequences, F.lit(0)).alias("null_sequences"),
        F.array(*nulls).alias("null_keys"),
        *(_unstorable(target, key, keyed) for key in _partitioning(target)),
        *(_bounds(target, key, counts) for key in _bounded(target)),
    ]


def _partitioning(target: CdcTarget) -> list[str]:
    return [key for key in target.keys if key in target.text_partitions]


def _unstorable(target: CdcTarget, key: str, keyed: Column) -> Column:
    is_stored = is_storable(column(key), target.table_schema[key].dataType)
    return F.coalesce(F.sum(F.when(~is_stored, keyed)), F.lit(0)).alias(f"unstorable {key}")


def _bounded(target: CdcTarget) -> list[str]:
    return [key for key in target.keys if has_bounds(target.table_schema[key].dataType)]


def _bounds(target: CdcTarget, key: str, counts: Column) -> Column:
    return bounds_of(F.when(counts, column(key)), target.table_schema[key].dataType).alias(f"bounds {key}")


def read_counts(row: Row, target: CdcTarget) -> BatchCounts:
    """Return the counts from a row of `counting_columns`."""
    return BatchCounts(
        rows=row["rows"],
        null_sequences=row["null_sequences"],
        null_keys=dict(zip(target.keys, row["null_keys"], strict=True)),
        ranges={
            key: KeyRange.read(row[f"bounds {key}"], target.table_schema[key].dataType) for key in _bounded(target)
        },
        unstorable_keys={key: row[f"unstorable {key}"] for key in _partitioning(target)},
    )


def count_events(events: DataFrame, target: CdcTarget) -> BatchCounts:
    """Count a batch of single events: one job."""
    row = events.agg(*_counting(target)).first()
    assert row is not None  # an aggregate without groups has one row
    return read_counts(row, target)


@built_once
def _counting(target: CdcTarget) -> list[Column]:
    return counting_columns(
        target,
        rows=F.count(F.lit(1)),
        null_sequences=F.count_if(is_unordered(target, column(ORDER))),
        keyed=F.lit(1),
        counts=F.expr("true"),
    )


def check_contract(counts: BatchCounts, *, flow: QualifiedName, batch_id: int) -> None:
    """Check a batch against its contract.

    Raises:
        OperationError: AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY, PARTITION_KEY or NULL_SEQUENCE, with counts.
    """
    _check_keys("AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY", counts.null_keys, counts.rows, flow, batch_id)
    _check_keys("AUTOCDC_MICROBATCH_VALIDATION.PARTITION_KEY", counts.unstorable_keys, counts.rows, flow, batch_id)
    if counts.null_sequences:
        raise OperationError(
            "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE",
            flow=flow,
            batch_id=batch_id,
            row_count=counts.rows,
            null_count=counts.null_sequences,
        )


def _check_keys(condition: str, counts: Mapping[str, int], rows: int, flow: QualifiedName, batch_id: int) -> None:
    broken = {key: count for key, count in counts.items() if count}
    if broken:
        raise OperationError(
            condition,
            flow=flow,
            batch_id=batch_id,
            row_count=rows,
            null_count=max(broken.values()),
            counts=", ".join(f"{key}: {count}" for key, count in broken.items()),
        )
