"""The one event of each key that counts in a batch, and the batch's contract, both in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StringType

from framework.cdc.columns import column
from framework.cdc.events import DELETE, OPERATION, order_of
from framework.cdc.reserved import HIDDEN_COLUMN, ONCE, SEQUENCE
from framework.cdc.target import CdcTarget
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName

_ROWS = "__sluice_rows"
_NULL_SEQUENCES = "__sluice_null_sequences"
_WINNER = "__sluice_winner"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """What one pass over the winners tells of a batch.

    Args:
        rows: events.
        keys: different keys.
        deletes: keys whose winner is a delete.
        null_sequences: events without a sequence.
        null_keys: per key column, events in which it is null.
        ranges: per key column that can be compared with literals, its least and greatest value.
    """

    rows: int
    keys: int
    deletes: int
    null_sequences: int
    null_keys: Mapping[str, int]
    ranges: Mapping[str, tuple[object, object]]


def pick_winners(events: DataFrame, target: CdcTarget) -> DataFrame:
    """The greatest event of each key, by sequence, then delete before upsert, then content.

    Rows that break the contract are kept and counted, so that `count_winners` finds them without
    a second scan of the batch.

    Returns:
        As the events, one row a key (a null key too), with two columns of counts.
    """
    hidden = column(HIDDEN_COLUMN)
    order = order_of(target, hidden, content=True)
    payload = F.struct(*(column(field.name) for field in target.value_fields), hidden, column(OPERATION))
    unordered = hidden.getField(ONCE).isNull() & _sequence_is_null(target, hidden)
    grouped = events.groupBy(*(column(key) for key in target.keys)).agg(
        F.max_by(payload, _with_operation(target, order)).alias(_WINNER),
        F.count(F.lit(1)).alias(_ROWS),
        F.count_if(unordered).alias(_NULL_SEQUENCES),
    )
    return grouped.select(*(column(key) for key in target.keys), f"{_WINNER}.*", _ROWS, _NULL_SEQUENCES)


def _sequence_is_null(target: CdcTarget, hidden: Column) -> Column:
    return F.expr("true") if target.sequence_type is None else hidden.getField(SEQUENCE).isNull()


def _with_operation(target: CdcTarget, order: Column) -> Column:
    """The order with "is a delete" between sequence and content."""
    names = [SEQUENCE] if target.sequence_type is not None else []
    is_delete = column(OPERATION) == F.lit(DELETE)
    before = [order.getField(name).alias(name) for name in [*names, ONCE]]
    return F.struct(*before, is_delete.alias("is_delete"), order.getField("content").alias("content"))


def count_winners(winners: DataFrame, target: CdcTarget) -> BatchCounts:
    """The counts of a batch, from its (cached) winners: one job."""
    ranged = [key for key in target.keys if _has_literals(target.table_schema[key].dataType)]
    row = winners.agg(
        F.coalesce(F.sum(_ROWS), F.lit(0)).alias("rows"),
        F.count(F.lit(1)).alias("keys"),
        F.count_if(column(OPERATION) == F.lit(DELETE)).alias("deletes"),
        F.coalesce(F.sum(_NULL_SEQUENCES), F.lit(0)).alias("null_sequences"),
        F.array(*(_null_rows(key) for key in target.keys)).alias("null_keys"),
        *(F.struct(F.min(column(key)), F.max(column(key))).alias(f"range {key}") for key in ranged),
    ).first()
    assert row is not None  # an aggregate without groups has one row
    return BatchCounts(
        rows=row["rows"],
        keys=row["keys"],
        deletes=row["deletes"],
        null_sequences=row["null_sequences"],
        null_keys=dict(zip(target.keys, row["null_keys"], strict=True)),
        ranges={key: tuple(row[f"range {key}"]) for key in ranged},
    )


def _null_rows(key: str) -> Column:
    return F.coalesce(F.sum(F.when(column(key).isNull(), column(_ROWS))), F.lit(0))


def _has_literals(data_type: DataType) -> bool:
    """Whether values come back to the driver and go into a condition again without loss."""
    return isinstance(data_type, IntegralType | DecimalType | StringType | DateType)


def check_contract(counts: BatchCounts, *, flow: QualifiedName, batch_id: int) -> None:
    """Hold a batch to its contract, before anything is written.

    Raises:
        OperationError: AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY or NULL_SEQUENCE, with counts.
    """
    broken = {key: count for key, count in counts.null_keys.items() if count}
    if broken:
        texts = ", ".join(f"{key}: {count}" for key, count in broken.items())
        raise OperationError(
            "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY",
            flow=flow,
            batch_id=batch_id,
            row_count=counts.rows,
            null_count=max(broken.values()),
            counts=texts,
        )
    if counts.null_sequences:
        raise OperationError(
            "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE",
            flow=flow,
            batch_id=batch_id,
            row_count=counts.rows,
            null_count=counts.null_sequences,
        )
