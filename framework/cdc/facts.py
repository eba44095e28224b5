"""What a batch says of each key: its newest upsert, its newest delete; and the batch's contract.

All of it comes from one pass over the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.columns import column, is_orderable
from framework.cdc.events import AUTHORED, DELETE, OPERATION, ORDER, TRUNCATE, UPSERT
from framework.cdc.leaves import assemble
from framework.cdc.literals import portable, rebuild
from framework.cdc.order import is_dead, point_of
from framework.cdc.reserved import ONCE, SEQUENCE
from framework.cdc.target import CdcTarget
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql.types import Row

AUTHORS = "__sluice_authors"
DELETED = "__sluice_deleted"
TOMBSTONE = "__sluice_tombstone"
"""The batch's own newest delete of the key, if it must be remembered."""

_TRUNCATED = "__sluice_truncated"
_UPSERTS = "__sluice_upserts"
_ROWS = "__sluice_rows"
_KEYED = "__sluice_keyed"
_NULL_SEQUENCES = "__sluice_null_sequences"
_VALUES = "__sluice_values"
_OWN = "__sluice_own"
_FLOOR = "__sluice_floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """What one pass over the facts tells of a batch.

    Args:
        rows: events.
        upserts: keys with an upsert that the batch itself does not undo.
        tombstones: keys with a delete that must be remembered.
        effects: keys that may change the target.
        null_sequences: events without a sequence.
        null_keys: per key column, events in which it is null (truncates need no key).
        ranges: per key column the literals of its least and greatest value.
        floor: the literal of the batch's latest truncate.
    """

    rows: int
    upserts: int
    tombstones: int
    effects: int
    null_sequences: int
    null_keys: Mapping[str, int]
    ranges: Mapping[str, tuple[Column, Column]]
    floor: Column | None


def gather_facts(events: DataFrame, target: CdcTarget) -> DataFrame:
    """One row a key: the values and `ORDER` of its newest upsert, `DELETED`, the point of its newest delete.

    For a target with authors the values are those of each leaf's newest author, whose orders are in
    `AUTHORS`. Rows that break the contract are kept and counted, so that `count_facts` finds them
    without a second scan of the batch.
    """
    operation, order = column(OPERATION), column(ORDER)
    point = point_of(order, target.order_type)
    upsert = F.when(operation == F.lit(UPSERT), order)
    counts = [
        F.max(F.when(operation == F.lit(TRUNCATE), point)).alias(_TRUNCATED),
        F.count(F.lit(1)).alias(_ROWS),
        F.count_if(operation != F.lit(TRUNCATE)).alias(_KEYED),
        F.count_if(_is_unordered(target, order)).alias(_NULL_SEQUENCES),
    ]
    values, made = _authored_values(target, upsert) if target.is_authored else _whole_values(target, upsert)
    grouped = events.groupBy(*(column(key) for key in target.keys)).agg(
        *values,
        F.max(upsert).alias(ORDER),
        F.max(F.when(operation == F.lit(DELETE), point)).alias(DELETED),
        *counts,
    )
    kept = (ORDER, DELETED, _TRUNCATED, _ROWS, _KEYED, _NULL_SEQUENCES)
    return grouped.select(*(column(key) for key in target.keys), *made, *(column(name) for name in kept))


def _is_unordered(target: CdcTarget, order: Column) -> Column:
    parts = [order.getField(name).isNull() for name in (SEQUENCE, ONCE) if name in target.order_type.fieldNames()]
    return parts[0] if len(parts) == 1 else parts[0] & parts[1]


def _whole_values(target: CdcTarget, upsert: Column) -> tuple[list[Column], list[Column]]:
    """The newest upsert's values: how to aggregate them, and how to take them out."""
    names = [field.name for field in target.value_fields]
    if not names:
        return [], []
    payload = F.struct(*(column(name) for name in names))
    values = F.max_by(payload, upsert).alias(_VALUES)
    return [values], [column(_VALUES).getField(name).alias(name) for name in names]


def _authored_values(target: CdcTarget, upsert: Column) -> tuple[list[Column], list[Column]]:
    """Each leaf's newest author and what it wrote."""
    aggregates = []
    for index, leaf in enumerate(target.leaves):
        author = F.when(column(AUTHORED).getField(leaf.name), upsert)
        aggregates += [F.max_by(leaf.of(), author).alias(f"{_VALUES}_{index}")]
        aggregates += [F.max(author).alias(f"{AUTHORS}_{index}")]
    numbers = range(len(target.leaves))
    values = [column(f"{_VALUES}_{index}") for index in numbers]
    made = [assemble(field, target.leaves, values).alias(field.name) for field in target.value_fields]
    authors = [column(f"{AUTHORS}_{index}").alias(leaf.name) for index, leaf in enumerate(target.leaves)]
    return aggregates, [*made, F.struct(*authors).alias(AUTHORS)]


def settle_facts(
    facts: DataFrame, target: CdcTarget, *, tombstones: DataFrame | None, floor: DataFrame | None
) -> DataFrame:
    """The facts with all that is known to be undone taken out.

    Args:
        facts: of `gather_facts`.
        target: the target.
        tombstones: the keys and `TOMBSTONE`, the newest recorded delete of each.
        floor: one row with the latest recorded truncate, `TOMBSTONE` too.

    Returns:
        The facts; `ORDER` is null where the newest upsert is undone, `DELETED` is the newest delete
        known, and `TOMBSTONE` the batch's own where it must be remembered.
    """
    own = point_of(column(ORDER), target.order_type)
    survives = column(ORDER).isNotNull() & ~is_dead(own, deleted=column(DELETED), floor=None)
    # A delete that the batch itself overtakes need not be remembered: what it undoes is older than
    # the row, and stays so. But where leaves have authors, older ones may be under a newer row.
    remembered = column(DELETED) if target.is_authored else F.when(~survives, column(DELETED))
    settled = facts.withColumns({_UPSERTS: survives, _OWN: remembered})
    if tombstones is not None:
        settled = settled.join(tombstones, list(target.keys), "left")
        settled = settled.withColumn(DELETED, F.greatest(column(DELETED), column(TOMBSTONE))).drop(TOMBSTONE)
    limit = None
    if floor is not None:
        settled = settled.crossJoin(F.broadcast(floor.withColumnRenamed(TOMBSTONE, _FLOOR)))
        limit = column(_FLOOR)
    cleared = clear_dead(settled, target, deleted=column(DELETED), floor=limit)
    return cleared.withColumnRenamed(_OWN, TOMBSTONE).drop(_FLOOR)


def clear_dead(facts: DataFrame, target: CdcTarget, *, deleted: Column | None, floor: Column | None) -> DataFrame:
    """The facts without upserts, and without leaves, that a delete or a truncate undoes."""
    order = column(ORDER)
    dead = is_dead(point_of(order, target.order_type), deleted=deleted, floor=floor)
    changes = {ORDER: F.when(~dead, order)}
    if target.is_authored:
        authors = [column(AUTHORS).getField(leaf.name) for leaf in target.leaves]
        gone = [is_dead(point_of(author, target.order_type), deleted=deleted, floor=floor) for author in authors]
        values = [F.when(~dead, leaf.of()) for dead, leaf in zip(gone, target.leaves, strict=True)]
        changes |= {field.name: assemble(field, target.leaves, values) for field in target.value_fields}
        alive = [F.when(~dead, author) for dead, author in zip(gone, authors, strict=True)]
        names = [leaf.name for leaf in target.leaves]
        changes[AUTHORS] = F.struct(*(author.alias(name) for author, name in zip(alive, names, strict=True)))
    return facts.withColumns(changes)


def has_effect() -> Column:
    """Whether a key's facts may change the target: an upsert that lives, or a delete."""
    return column(ORDER).isNotNull() | column(DELETED).isNotNull()


def count_facts(facts: DataFrame, target: CdcTarget) -> BatchCounts:
    """The counts of a batch, from its facts (which are computed by this): one job."""
    ranged = [key for key in target.keys if is_orderable(target.table_schema[key].dataType)]
    truncated = F.max(column(_TRUNCATED))
    row = facts.agg(
        F.coalesce(F.sum(_ROWS), F.lit(0)).alias("rows"),
        F.count_if(column(_UPSERTS)).alias("upserts"),
        F.count(column(TOMBSTONE)).alias("tombstones"),
        F.count_if(has_effect()).alias("effects"),
        F.coalesce(F.sum(_NULL_SEQUENCES), F.lit(0)).alias("null_sequences"),
        F.array(*(_null_rows(key) for key in target.keys)).alias("null_keys"),
        portable(truncated, target.point_type).alias("floor"),
        *(_range(key, target).alias(f"range {key}") for key in ranged),
    ).first()
    assert row is not None  # an aggregate without groups has one row
    return BatchCounts(
        rows=row["rows"],
        upserts=row["upserts"],
        tombstones=row["tombstones"],
        effects=row["effects"],
        null_sequences=row["null_sequences"],
        null_keys=dict(zip(target.keys, row["null_keys"], strict=True)),
        ranges={key: _bounds(row[f"range {key}"], key, target) for key in ranged},
        floor=None if row["floor"] is None else rebuild(row["floor"], target.point_type),
    )


def _null_rows(key: str) -> Column:
    return F.coalesce(F.sum(F.when(column(key).isNull(), column(_KEYED))), F.lit(0))


def _range(key: str, target: CdcTarget) -> Column:
    data_type = target.table_schema[key].dataType
    value = F.when(has_effect(), column(key))
    return F.struct(portable(F.min(value), data_type).alias("least"), portable(F.max(value), data_type).alias("most"))


def _bounds(found: Row, key: str, target: CdcTarget) -> tuple[Column, Column]:
    data_type = target.table_schema[key].dataType
    return rebuild(found["least"], data_type), rebuild(found["most"], data_type)


def key_range(ranges: Mapping[str, tuple[Column, Column]], *, of: str | None = None) -> Column:
    """A condition that a table's rows with keys of the batch fulfil, by which Delta skips files."""
    condition = F.expr("true")
    for key, (least, most) in ranges.items():
        value = column(key, of=of)
        condition = condition & (value >= least) & (value <= most)
    return condition


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
