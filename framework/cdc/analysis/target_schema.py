"""Planning of an AUTO CDC target: its keys, schema and settings, derived from all of its flows before anything runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, partial

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.cdc.analysis.change_feed import is_sequenced_by_commit
from framework.cdc.analysis.compatibility import (
    check_compatibility,
    check_declared_columns,
    check_drift,
    check_partition_keys,
    common_sequence_type,
    merge_columns,
    soft_deletes_of,
    stored_kind,
    tracked_columns,
)
from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.analysis.rules import check_flow
from framework.cdc.analysis.selections import split_columns
from framework.cdc.model.authorship import Leaf, split_leaves
from framework.cdc.model.columns import bare_name, find_field, match_field, struct_of
from framework.cdc.model.reserved_names import (
    AUTHORS,
    CONTENT,
    DELETED,
    END_AT,
    ENDED,
    HIDDEN_COLUMN,
    METADATA_KEY,
    ONCE,
    OPERATION_KIND,
    RECORDED_AT,
    SEQUENCE,
    SOFT_DELETES_KEY,
    START_AT,
    STARTED,
)
from framework.cdc.model.sequence_types import stored_sequence
from framework.cdc.model.target_plan import TargetPlan
from framework.foundation.errors import GraphErrors, SluiceError
from framework.foundation.names import QualifiedName
from framework.schema.data_types import merge_schemas, plain_schema, plain_type
from framework.schema.lattice import AUTO_CDC

__all__ = ["CdcInput", "CdcTarget", "plan_target", "raise_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcTarget(TargetPlan):
    """A planned target with the types of its columns, as Spark has them."""

    @classmethod
    def of(cls, plan: TargetPlan) -> CdcTarget:
        """Return the target of a plan."""
        return cls(**{each.name: getattr(plan, each.name) for each in fields(TargetPlan)})

    @property
    def plan(self) -> TargetPlan:
        """Return the plan without Spark types."""
        return TargetPlan(**{each.name: getattr(self, each.name) for each in fields(TargetPlan)})

    @property
    def table_schema(self) -> StructType:
        """The physical schema; the hidden column's metadata has the keys and the SCD type."""
        return _parsed(self.table_json)

    @property
    def visible_schema(self) -> StructType:
        """The schema for readers inside the pipeline: the physical schema without the hidden column."""
        return StructType([field for field in self.table_schema.fields if field.name != HIDDEN_COLUMN])

    @property
    def row_schema(self) -> StructType:
        """Return the columns that come from the flows: the visible columns without SCD type 2 columns and the flag."""
        ours = {START_AT, END_AT} if self.scd_type == 2 else {self.flag}
        return StructType([field for field in self.visible_schema.fields if field.name not in ours])

    @property
    def value_fields(self) -> tuple[StructField, ...]:
        """The columns from the flows that are not keys."""
        return tuple(field for field in self.row_schema.fields if field.name not in self.keys)

    @property
    def hidden_type(self) -> StructType:
        """The type of the hidden column."""
        return struct_of(self.table_schema, HIDDEN_COLUMN)

    @property
    def sequence_type(self) -> DataType | None:
        """The type of the sequences that are not literals; None while all sequences are literals."""
        field = match_field(self.hidden_type, SEQUENCE)
        return None if field is None else field.dataType

    @property
    def point_type(self) -> StructType:
        """The type of the points of events."""
        return point_type(self.sequence_type)

    @property
    def order_type(self) -> StructType:
        """The type of the orders of events."""
        return order_type(self.sequence_type)

    @property
    def is_authored(self) -> bool:
        """Return whether events may author parts of rows, so that each leaf has its own author."""
        return AUTHORS in self.hidden_type.fieldNames()

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Return the parts of a row that have authors: all non-key columns, some split into their fields."""
        return split_leaves(self.value_fields, self.split)

    @property
    def auxiliary_schema(self) -> StructType:
        """Return the auxiliary schema: a struct with operation and order, the keys, and for SCD type 2 the event."""
        kind = [StructField(OPERATION_KIND, StringType()), StructField(RECORDED_AT, TimestampType())]
        ours = StructField(HIDDEN_COLUMN, StructType([*kind, *self.order_type.fields]))
        keys = [StructField(key, self.table_schema[key].dataType) for key in self.keys]
        if self.scd_type == 1:
            return StructType([ours, *keys])
        row = [StructField("row", StructType(list(self.value_fields)))]
        flags = [StructField(leaf.name, BooleanType()) for leaf in self.leaves] if self.is_authored else []
        authored = [StructField("authored", StructType(flags))] if flags else []
        event = StructType([*row, *authored])
        return StructType([ours, *keys, StructField(f"{HIDDEN_COLUMN}_event", event)])


@cache
def _parsed(table_json: str) -> StructType:
    return StructType.fromJson(json.loads(table_json))


def plan_target(
    target: QualifiedName,
    inputs: Sequence[CdcInput],
    *,
    declared_schema: StructType | None = None,
    stored: StructType | None = None,
    partition_columns: Sequence[str] = (),
    widens: bool = False,
) -> CdcTarget:
    """Plan a target from its flows.

    Args:
        target: the target's name.
        inputs: its AUTO CDC flows, at least one, in order of declaration.
        declared_schema: the schema that the user declared for the target, if any.
        stored: the current physical schema of the table, if it exists.
        partition_columns: the columns that the table is partitioned by.
        widens: whether the types of stored columns may become wider.

    Raises:
        UserError: one fault of the flows, or one conflict with the stored table.
        GraphErrors: several such faults.
    """
    declared = StructType([]) if declared_schema is None else declared_schema
    raise_all([fault for flow in inputs for fault in check_flow(flow)])
    raise_all([*check_compatibility(target, inputs), *check_declared_columns(target, inputs, declared)])
    columns, faults = merge_columns(target, inputs, declared_schema)
    raise_all(faults)
    scd_type = inputs[0].spec.scd_type
    if stored is not None:
        raise_all(list(check_drift(target, inputs, columns, stored, widens=widens)))
    flag = soft_deletes_of(inputs)
    known = columns if stored is None else _with_stored(columns, stored, scd_type, flag)
    keys = tuple(_spelling(known, key) for key in inputs[0].spec.keys)
    values = [field for field in known.fields if field.name not in keys]
    partitions = [f for f in map(partial(find_field, known), partition_columns) if f is not None]
    raise_all(list(check_partition_keys(target, inputs, keys, partitions)))
    split = split_columns(inputs, values, stored)
    table = _physical(known, inputs, keys=keys, split=split, stored=stored)
    table = StructType([_as_declared(field, declared) for field in table.fields])
    return CdcTarget(
        name=target,
        keys=keys if stored is None else tuple(stored_kind(stored)["keys"]),
        scd_type=scd_type,
        table_json=table.json(),
        literal_flows=tuple(flow.name for flow in inputs if flow.is_literal),
        split=() if split is None else split,
        tracked=tracked_columns(inputs, values) if scd_type == 2 else (),
        text_partitions=tuple(
            field.name for field in partitions if isinstance(field.dataType, (StringType, TimestampType))
        ),
        deletes_first=_has_deletes_first(inputs),
        flag=None if flag is None else _flag_of(table, flag),
    )


def raise_all(faults: Sequence[SluiceError]) -> None:
    """Raise a single fault unchanged, and several as GraphErrors."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise GraphErrors(faults)


def _has_deletes_first(inputs: Sequence[CdcInput]) -> bool:
    """Return whether all deletes are sequenced by commit, so that upserts of the same commit come after them."""
    deleting = [flow for flow in inputs if flow.spec.apply_as_deletes is not None]
    return bool(deleting) and all(map(is_sequenced_by_commit, deleting))


def _with_stored(columns: StructType, stored: StructType, scd_type: int, flag: str | None) -> StructType:
    """Return the columns of the stored table, widened, then the new columns of the flows."""
    ours = {HIDDEN_COLUMN, START_AT, END_AT} if scd_type == 2 else {HIDDEN_COLUMN}
    kept = [field for field in stored.fields if field.name not in ours and field.name.lower() != (flag or "").lower()]
    merged = merge_schemas(StructType(kept), columns, AUTO_CDC)
    assert merged is not None  # check_drift found a common type of every column
    return plain_schema(merged)


def _as_declared(field: StructField, declared: StructType) -> StructField:
    """Return a column of the table, NOT NULL if it was declared so."""
    found = match_field(declared, field.name)
    nullable = found is None or found.nullable
    return StructField(field.name, field.dataType, nullable=nullable, metadata=field.metadata)


def _flag_of(table: StructType, name: str) -> str:
    """Return the flag as the table spells it."""
    field = match_field(table, name)
    assert field is not None  # it is a column of the table
    return field.name


def _spelling(columns: StructType, key: str) -> str:
    field = find_field(columns, key)
    return bare_name(key) if field is None else field.name


def _physical(
    columns: StructType,
    inputs: Sequence[CdcInput],
    *,
    keys: tuple[str, ...],
    split: tuple[str, ...] | None,
    stored: StructType | None,
) -> StructType:
    """Return the table's schema: flow columns, SCD type 2 columns, hidden column; stored fields keep positions."""
    scd_type = inputs[0].spec.scd_type
    displayed = common_sequence_type(inputs, literal=False)
    sequence = None if displayed is None else plain_type(stored_sequence(displayed))
    values = [field for field in columns.fields if field.name not in keys]
    hidden = hidden_type(sequence, scd_type, [] if split is None else split_leaves(values, split))
    fields = list(columns.fields)
    if scd_type == 2:
        fields += [StructField(name, _displayed_sequence_type(inputs, displayed)) for name in (START_AT, END_AT)]
    kind: dict[str, object] = {"keys": list(keys), "scd_type": scd_type}
    flag = soft_deletes_of(inputs)
    if flag is not None:
        fields.append(StructField(flag, BooleanType()))
        kind[SOFT_DELETES_KEY] = flag
    wanted = StructType([*fields, StructField(HIDDEN_COLUMN, hidden, nullable=True, metadata={METADATA_KEY: kind})])
    merged = wanted if stored is None else merge_schemas(stored, wanted, AUTO_CDC)
    assert merged is not None  # check_drift found a common type of every column
    return plain_schema(merged)


def _displayed_sequence_type(inputs: Sequence[CdcInput], displayed: DataType | None) -> DataType:
    """Return the type of `__START_AT`: the sequence type, or the widened type of literals if all are literals."""
    if displayed is not None:
        return plain_type(displayed)
    literal = common_sequence_type(inputs, literal=True)
    return stored_sequence(literal) if literal is not None else StringType()


def point_type(sequence: DataType | None) -> StructType:
    """Return the type of a point, without a sequence while a target has only literal flows."""
    fields = [] if sequence is None else [StructField(SEQUENCE, sequence)]
    return StructType([*fields, StructField(ONCE, DoubleType())])


def order_type(sequence: DataType | None) -> StructType:
    """Return the type of an order: a point and the fingerprint of the content."""
    return StructType([*point_type(sequence).fields, StructField(CONTENT, LongType())])


def hidden_type(sequence: DataType | None, scd_type: int, authored: Sequence[Leaf]) -> StructType:
    """Return the type of the hidden column.

    It contains the order of the row's newest event. Per authored leaf, it contains the order of the event that wrote
    the leaf, unless the newest event wrote it (see `authorship`). For SCD type 2, it contains the points at which the
    row's run began and ended, and whether a delete ended it.
    """
    fields = list(order_type(sequence).fields)
    if authored:
        authors = [StructField(leaf.name, order_type(sequence)) for leaf in authored]
        fields.append(StructField(AUTHORS, StructType(authors)))
    if scd_type == 2:
        point = point_type(sequence)
        fields += [StructField(STARTED, point), StructField(ENDED, point), StructField(DELETED, BooleanType())]
    return StructType(fields)
