"""Normalization of change events to one schema: keys, values, order and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from framework.cdc.analysis.change_feed import CHANGE_TYPE, PREIMAGE, is_of_feed
from framework.cdc.analysis.flow_input import literal_rank
from framework.cdc.analysis.selections import ignores_null
from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.leaf_columns import aliased, take_leaf, value_names, wrote_names
from framework.cdc.model.columns import align_column, as_stored, bare_name, column, match_field, select_fields
from framework.cdc.model.equality import fingerprint, normal_key
from framework.cdc.model.reserved_names import CONTENT, ONCE, SEQUENCE
from framework.declare.specs import AutoCdcSpec
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from framework.cdc.model.authorship import Leaf

ORDER = "__sluice_order"
OPERATION = "__sluice_operation"

UPSERT = "upsert"
DELETE = "delete"
TRUNCATE = "truncate"

_SEQUENCE_INPUT = "__sluice_sequence"
_LISTED_INPUT = "__sluice_listed"


def upsert_predicate(spec: AutoCdcSpec) -> str:
    """Return an SQL condition over a flow's source that is true for upserts.

    The engine checks expectations for upserts only, because the row of a delete seldom has values.
    """
    conditions = [text for text in (spec.apply_as_deletes, spec.apply_as_truncates) if text is not None]
    return " AND ".join(f"NOT coalesce(({text}), false)" for text in conditions) or "true"


def read_events(batch: DataFrame, spec: AutoCdcSpec, target: CdcTarget, *, literal: bool) -> DataFrame:
    """Return the events of a batch, in the target's schema.

    Args:
        batch: rows of the flow's source.
        spec: the flow's declaration.
        target: the target.
        literal: whether the flow is a once flow with a literal sequence, which sorts before all other sequences.

    Returns:
        One row per event: the columns `event_names`, `ORDER` and `OPERATION`. Columns that the flow does not
        have are null.
    """
    filtered = batch if spec.where is None else batch.where(spec.where)
    selected = StructType(list(select_fields(batch.schema, spec.columns)))
    inputs = filtered.select(*_inputs(spec, target, selected, of_feed=is_of_feed(batch.schema)))
    sequence_type = inputs.schema[_SEQUENCE_INPUT].dataType
    return inputs.select(*_outputs(spec, target, selected, sequence_type, literal=literal))


@built_once
def _inputs(spec: AutoCdcSpec, target: CdcTarget, selected: StructType, *, of_feed: bool) -> list[Column]:
    """Return the target's columns, and the values of the flow's expressions over the source's columns."""
    operation = _operation(spec, removes_preimages=of_feed and target.deletes_first)
    inputs = {_SEQUENCE_INPUT: F.expr(spec.sequence_by), OPERATION: operation}
    if spec.columns_to_update is not None:
        inputs[_LISTED_INPUT] = column(bare_name(spec.columns_to_update))
    values = [_aligned(selected, field, target) for field in target.row_schema.fields]
    if target.is_authored:
        values += aliased(value_names(target), [_taken(selected, leaf, target) for leaf in target.leaves])
    return [*values, *(value.alias(name) for name, value in inputs.items())]


@built_once
def _outputs(
    spec: AutoCdcSpec, target: CdcTarget, selected: StructType, sequence_type: DataType, *, literal: bool
) -> list[Column]:
    order = _order(target, sequence_type, literal=literal)
    wrote = aliased(wrote_names(target), _wrote(spec, target, selected)) if target.is_authored else []
    names = [*target.keys, *value_names(target)] if target.is_authored else target.row_schema.fieldNames()
    return [*map(column, names), order.alias(ORDER), column(OPERATION), *wrote]


def _aligned(selected: StructType, want: StructField, target: CdcTarget) -> Column:
    field = match_field(selected, want.name)
    if field is None:
        return F.lit(None).cast(want.dataType).alias(want.name)
    value = column(field.name)
    if want.name in target.keys:
        value = normal_key(value, field.dataType)
    elif want.name in target.text_partitions:
        value = as_stored(value.cast(want.dataType), want.dataType)
    if value is column(field.name) and (field.name, field.dataType) == (want.name, want.dataType):
        # No alias: with a redundant one Spark loses the partitioning of a local checkpoint.
        return value
    return align_column(value, field.dataType, want.dataType).alias(want.name)


def _taken(selected: StructType, leaf: Leaf, target: CdcTarget) -> Column:
    """Return the value of a leaf; a partition column is always a single leaf."""
    value = take_leaf(leaf, selected, column)
    name = leaf.path[0]
    return as_stored(value, target.table_schema[name].dataType) if name in target.text_partitions else value


def _operation(spec: AutoCdcSpec, *, removes_preimages: bool) -> Column:
    """Return an event's operation; a condition that is null is false, and a truncate takes precedence over a delete.

    Args:
        spec: the flow's declaration.
        removes_preimages: whether a change feed's `update_preimage` is a delete, which the same commit's upsert
            survives. It is needed when an update changes a key: nothing else removes the row under the old key.
    """
    operation = F.lit(UPSERT)
    if spec.apply_as_deletes is not None:
        if removes_preimages:
            operation = F.when(column(CHANGE_TYPE) == F.lit(PREIMAGE), F.lit(DELETE)).otherwise(operation)
        operation = F.when(F.expr(spec.apply_as_deletes), F.lit(DELETE)).otherwise(operation)
    if spec.apply_as_truncates is not None:
        operation = F.when(F.expr(spec.apply_as_truncates), F.lit(TRUNCATE)).otherwise(operation)
    return operation


def _order(target: CdcTarget, sequence_type: DataType, *, literal: bool) -> Column:
    """Return the event's order, in the order type of the target."""
    value = column(_SEQUENCE_INPUT)
    parts: dict[str, Column] = {CONTENT: fingerprint(target.value_fields)}
    if literal:
        parts[ONCE] = literal_rank(value, sequence_type)
    elif target.sequence_type is not None:
        parts[SEQUENCE] = align_sequence(value, sequence_type, target.sequence_type)
    fields = [parts.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.order_type.fields]
    return F.struct(*fields)


def align_sequence(value: Column, have: DataType, want: DataType) -> Column:
    """Convert a sequence to the stored type; the fields of a struct correspond by position.

    A struct whose fields are all null defines no order, so it becomes null.
    """
    if not (isinstance(have, StructType) and isinstance(want, StructType)):
        return value.cast(want)
    pairs = zip(have.fields, want.fields, strict=True)
    parts = [align_sequence(value.getField(a.name), a.dataType, b.dataType).alias(b.name) for a, b in pairs]
    some = F.coalesce(*(F.when(part.isNotNull(), F.lit(1)) for part in parts))
    return F.when(some.isNotNull(), F.struct(*parts)).cast(want)


def _wrote(spec: AutoCdcSpec, target: CdcTarget, selected: StructType) -> list[Column]:
    """Return per leaf of the target whether the event wrote it.

    A leaf is not written if the flow has no such column, if its value is an ignored null, or if
    `columns_to_update` is a list without it.
    """
    values = map(column, value_names(target))
    return [_writes(spec, leaf, value, selected) for leaf, value in zip(target.leaves, values, strict=True)]


def _writes(spec: AutoCdcSpec, leaf: Leaf, value: Column, selected: StructType) -> Column:
    if not _has_leaf(selected, leaf.path):
        return F.expr("false")
    written = F.expr("true")
    if ignores_null(spec.ignore_null_updates, leaf):
        written = written & value.isNotNull()
    if spec.columns_to_update is not None:
        listed = column(_LISTED_INPUT)
        prefixes = [".".join(leaf.path[:depth]).lower() for depth in range(1, len(leaf.path) + 1)]
        named = F.exists(listed, lambda name: F.lower(name).isin(prefixes))
        written = written & F.coalesce(named, F.expr("true"))
    return written


def _has_leaf(selected: StructType, path: tuple[str, ...]) -> bool:
    field = match_field(selected, path[0])
    if field is None or len(path) == 1:
        return field is not None
    return isinstance(field.dataType, StructType) and _has_leaf(field.dataType, path[1:])
