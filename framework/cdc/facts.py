"""What a batch says of each key: its newest upsert and its newest delete, all from one pass over it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.columns import column
from framework.cdc.contract import BatchCounts, counting_columns, is_unordered, read_counts
from framework.cdc.events import AUTHORED, DELETE, OPERATION, ORDER, TRUNCATE, UPSERT
from framework.cdc.expressions import built_once
from framework.cdc.leaves import assemble
from framework.cdc.literals import portable, rebuild
from framework.cdc.order import is_dead, point_of
from framework.cdc.target import CdcTarget

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FactCounts:
    """What one pass over the facts tells of a batch.

    Args:
        batch: the contract's counts.
        upserts: keys with an upsert that the batch itself does not undo.
        tombstones: keys with a delete that must be remembered.
        effects: keys that may change the target.
        floor: the literal of the batch's latest truncate.
    """

    batch: BatchCounts
    upserts: int
    tombstones: int
    effects: int
    floor: Column | None


def gather_facts(events: DataFrame, target: CdcTarget) -> DataFrame:
    """One row a key: the values and `ORDER` of its newest upsert, `DELETED`, the point of its newest delete.

    For a target with authors the values are those of each leaf's newest author, whose orders are in
    `AUTHORS`. Rows that break the contract are kept and counted, so that `count_facts` finds them
    without a second scan of the batch.
    """
    aggregates, made = _gathering(target)
    grouped = events.groupBy(*(column(key) for key in target.keys)).agg(*aggregates)
    return grouped.select(*(column(key) for key in target.keys), *made)


@built_once
def _gathering(target: CdcTarget) -> tuple[list[Column], list[Column]]:
    """What to aggregate of a key's events, and what to make of that."""
    operation, order = column(OPERATION), column(ORDER)
    point = point_of(order, target.order_type)
    upsert = F.when(operation == F.lit(UPSERT), order)
    counts = [
        F.max(F.when(operation == F.lit(TRUNCATE), point)).alias(_TRUNCATED),
        F.count(F.lit(1)).alias(_ROWS),
        F.count_if(operation != F.lit(TRUNCATE)).alias(_KEYED),
        F.count_if(is_unordered(target, order)).alias(_NULL_SEQUENCES),
    ]
    values, made = _authored_values(target, upsert) if target.is_authored else _whole_values(target, upsert)
    newest = [F.max(upsert).alias(ORDER), F.max(F.when(operation == F.lit(DELETE), point)).alias(DELETED)]
    kept = (ORDER, DELETED, _TRUNCATED, _ROWS, _KEYED, _NULL_SEQUENCES)
    return [*values, *newest, *counts], [*made, *(column(name) for name in kept)]


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
    settled = facts.withColumns(_own_deletes(target))
    if tombstones is not None:
        settled = settled.join(tombstones, list(target.keys), "left")
        settled = settled.withColumn(DELETED, F.greatest(column(DELETED), column(TOMBSTONE))).drop(TOMBSTONE)
    limit = None
    if floor is not None:
        settled = settled.crossJoin(F.broadcast(floor.withColumnRenamed(TOMBSTONE, _FLOOR)))
        limit = column(_FLOOR)
    cleared = clear_dead(settled, target, deleted=column(DELETED), floor=limit)
    return cleared.withColumnRenamed(_OWN, TOMBSTONE).drop(_FLOOR)


@built_once
def _own_deletes(target: CdcTarget) -> dict[str, Column]:
    """Whether the batch itself leaves a key's upsert alive, and its delete if that must be remembered."""
    own = point_of(column(ORDER), target.order_type)
    survives = column(ORDER).isNotNull() & ~is_dead(own, deleted=column(DELETED), floor=None)
    # A delete that the batch itself overtakes need not be remembered: what it undoes is older than
    # the row, and stays so. But where leaves have authors, older ones may be under a newer row.
    return {_UPSERTS: survives, _OWN: column(DELETED) if target.is_authored else F.when(~survives, column(DELETED))}


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


@built_once
def has_effect() -> Column:
    """Whether a key's facts may change the target: an upsert that lives, or a delete."""
    return column(ORDER).isNotNull() | column(DELETED).isNotNull()


def count_facts(facts: DataFrame, target: CdcTarget) -> FactCounts:
    """The counts of a batch, from its facts (which are computed by this): one job."""
    row = facts.agg(*_counting(target)).first()
    assert row is not None  # an aggregate without groups has one row
    return FactCounts(
        batch=read_counts(row, target),
        upserts=row["upserts"],
        tombstones=row["tombstones"],
        effects=row["effects"],
        floor=None if row["floor"] is None else rebuild(row["floor"], target.point_type),
    )


@built_once
def _counting(target: CdcTarget) -> list[Column]:
    counting = counting_columns(
        target,
        rows=F.sum(_ROWS),
        null_sequences=F.sum(_NULL_SEQUENCES),
        keyed=column(_KEYED),
        counts=has_effect(),
    )
    return [
        *counting,
        F.count_if(column(_UPSERTS)).alias("upserts"),
        F.count(column(TOMBSTONE)).alias("tombstones"),
        F.count_if(has_effect()).alias("effects"),
        portable(F.max(column(_TRUNCATED)), target.point_type).alias("floor"),
    ]
