"""Change events in one shape: keys, values, order and operation, whatever the source calls them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from framework.cdc.columns import align_column, column, find_field, fingerprint, select_fields
from framework.cdc.inputs import literal_rank
from framework.cdc.reserved import CONTENT, HIDDEN_COLUMN, ONCE, SEQUENCE
from framework.cdc.target import CdcTarget
from framework.declare.specs import AutoCdcSpec

OPERATION = "__sluice_operation"
UPSERT = "upsert"
DELETE = "delete"


def upsert_predicate(spec: AutoCdcSpec) -> str:
    """SQL over a flow's source that is true for its upserts.

    For the engine's expectations: a delete's row seldom carries values, so only upserts are held to them.
    """
    conditions = [text for text in (spec.apply_as_deletes, spec.apply_as_truncates) if text is not None]
    return " AND ".join(f"NOT coalesce(({text}), false)" for text in conditions) or "true"


def read_events(batch: DataFrame, spec: AutoCdcSpec, target: CdcTarget, *, literal: bool) -> DataFrame:
    """The events of a batch, in the target's shape.

    Args:
        batch: rows of the flow's source.
        spec: what the flow declares.
        target: what its target looks like.
        literal: the flow's sequence is a once flow's literal, which comes before everything.

    Returns:
        One row an event: the target's visible columns, then `HIDDEN_COLUMN` (its order) and
        `OPERATION`. Columns that the flow does not have are null.
    """
    filtered = batch if spec.where is None else batch.where(spec.where)
    selected = StructType(list(select_fields(batch.schema, spec.columns)))
    aligned = {field.name: _aligned(selected, field.name, field.dataType) for field in target.visible_schema.fields}
    sequence = F.expr(spec.sequence_by)
    sequence_type = batch.select(sequence).schema.fields[0].dataType
    staged = filtered.select(
        *(value.alias(name) for name, value in aligned.items()),
        sequence.alias(SEQUENCE_INPUT),
        _operation(spec).alias(OPERATION),
    )
    hidden = _hidden(target, sequence_type, literal=literal)
    visible = [column(name) for name in aligned]
    return staged.select(*visible, hidden.alias(HIDDEN_COLUMN), column(OPERATION))


SEQUENCE_INPUT = "__sluice_sequence"


def _aligned(selected: StructType, name: str, want: DataType) -> Column:
    field = find_field(selected, name)
    return F.lit(None).cast(want) if field is None else align_column(column(field.name), field.dataType, want)


def _operation(spec: AutoCdcSpec) -> Column:
    if spec.apply_as_deletes is None:
        return F.lit(UPSERT)
    return F.when(F.expr(spec.apply_as_deletes), F.lit(DELETE)).otherwise(F.lit(UPSERT))


def _hidden(target: CdcTarget, sequence_type: DataType, *, literal: bool) -> Column:
    """The event's order, as the target's hidden struct (in the stored order of its fields)."""
    value = column(SEQUENCE_INPUT)
    parts: dict[str, Column] = {CONTENT: fingerprint(target.value_fields)}
    if literal:
        parts[ONCE] = literal_rank(value, sequence_type)
    elif target.sequence_type is not None:
        parts[SEQUENCE] = align_sequence(value, sequence_type, target.sequence_type)
    fields = [parts.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.hidden_type.fields]
    return F.struct(*fields)


def align_sequence(value: Column, have: DataType, want: DataType) -> Column:
    """A sequence in the stored type; the fields of a struct correspond by position.

    A struct whose fields are all null orders nothing, so it becomes null itself.
    """
    if not (isinstance(have, StructType) and isinstance(want, StructType)):
        return value.cast(want)
    pairs = zip(have.fields, want.fields, strict=True)
    parts = [align_sequence(value.getField(a.name), a.dataType, b.dataType).alias(b.name) for a, b in pairs]
    known = [value.getField(field.name).isNotNull() for field in have.fields]
    return F.when(F.greatest(*known) if len(known) > 1 else known[0], F.struct(*parts)).cast(want)


def order_of(target: CdcTarget, hidden: Column, *, content: bool) -> Column:
    """The order of an event as one comparable struct: null sequences (literals of once flows) first.

    Args:
        target: whose hidden column it is.
        hidden: a value of the hidden column.
        content: break ties by content, so that of two upserts with one sequence the same one
            wins whichever comes first.
    """
    names = [SEQUENCE] if target.sequence_type is not None else []
    names += [ONCE, CONTENT] if content else [ONCE]
    return F.struct(*(hidden.getField(name).alias(name) for name in names))
