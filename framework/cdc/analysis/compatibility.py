"""Compatibility of the AUTO CDC flows of one target with each other and with the stored table.

A stored table may gain columns; other differences need a full refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql.types import BinaryType, BooleanType, DataType, NullType, StructField, StructType

from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.model.columns import bare_name, match_field, select_fields, struct_of
from framework.cdc.model.reserved_names import (
    END_AT,
    HIDDEN_COLUMN,
    METADATA_KEY,
    SEQUENCE,
    SOFT_DELETES_KEY,
    START_AT,
)
from framework.cdc.model.sequence_types import common_sequence, stored_sequence
from framework.declare.specs import ColumnSelection
from framework.foundation.computed_columns import has_default, is_identity
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.schema.change import SchemaChange, type_change
from framework.schema.data_types import common_type, merge_schemas, plain_schema, plain_type
from framework.schema.lattice import AUTO_CDC


def check_compatibility(target: QualifiedName, inputs: Sequence[CdcInput]) -> Iterator[UserError]:
    """Yield the faults of valid flows that are incompatible: keys, types, histories, flags, snapshots, sequences."""
    first = inputs[0]
    for flow in inputs[1:]:
        if _folded_keys(flow) != _folded_keys(first):
            yield flow.fault(
                "AUTOCDC_DIFFERENT_KEYS",
                target=target,
                keys=", ".join(flow.spec.keys),
                other_flow=first.name,
                other_keys=", ".join(first.spec.keys),
            )
        if flow.spec.scd_type != first.spec.scd_type:
            yield flow.fault(
                "AUTOCDC_DIFFERENT_SCD_TYPES",
                target=target,
                scd_type=flow.spec.scd_type,
                other_flow=first.name,
                other_scd_type=first.spec.scd_type,
            )
    yield from _check_history(target, inputs)
    yield from _check_soft_deletes(target, inputs)
    yield from _check_snapshots(target, inputs)
    yield from _check_sequences(target, [flow for flow in inputs if not flow.is_literal])


def _folded_keys(flow: CdcInput) -> set[str]:
    return {bare_name(key).lower() for key in flow.spec.keys}


def _check_history(target: QualifiedName, inputs: Sequence[CdcInput]) -> Iterator[UserError]:
    explicit = [flow for flow in inputs if flow.spec.track_history.columns is not None]
    for flow in explicit[1:]:
        if flow.spec.track_history != explicit[0].spec.track_history:
            yield flow.fault("AUTOCDC_DIFFERENT_TRACK_HISTORY", target=target, other_flow=explicit[0].name)


def _check_soft_deletes(target: QualifiedName, inputs: Sequence[CdcInput]) -> Iterator[UserError]:
    flag = soft_deletes_of(inputs)
    if flag is None:
        return
    for flow in inputs:
        named = flow.spec.soft_deletes
        if named is not None and named.lower() != flag.lower():
            yield flow.fault("AUTOCDC_DIFFERENT_SOFT_DELETES", target=target, column=named, other=flag)
        if match_field(StructType(list(flow.selected)), flag) is not None:
            yield flow.fault("AUTOCDC_SOFT_DELETES_COLUMN", target=target, column=flag)


def soft_deletes_of(inputs: Sequence[CdcInput]) -> str | None:
    """Return the flag column for deleted rows, shared by all flows; None if deleted rows are removed."""
    named = [flow.spec.soft_deletes for flow in inputs if flow.spec.soft_deletes is not None]
    return named[0] if named else None


def _check_snapshots(target: QualifiedName, inputs: Sequence[CdcInput]) -> Iterator[UserError]:
    comparing = [flow for flow in inputs if flow.versions is not None]
    if comparing and len(inputs) > 1:
        others = [flow.name for flow in inputs if flow is not comparing[0]]
        yield comparing[0].fault("AUTOCDC_SNAPSHOTS_NOT_ALONE", target=target, other_flow=others[0])


def _check_sequences(target: QualifiedName, ordered: Sequence[CdcInput]) -> Iterator[UserError]:
    common: DataType = NullType()
    for flow in ordered:
        wider = common_sequence(common, flow.sequence_type)
        if wider is None:
            yield flow.fault(
                "AUTOCDC_INCOMPATIBLE_SEQUENCES",
                target=target,
                type=flow.sequence_type.simpleString(),
                other_flow=ordered[0].name,
                other_type=common.simpleString(),
            )
            return
        common = wider


def check_declared_columns(
    target: QualifiedName, inputs: Sequence[CdcInput], declared: StructType
) -> Iterator[UserError]:
    """Check that no declared column is an identity column or has a default: AUTO CDC writes all columns of a row.

    The column that flags deleted rows may be declared, as a BOOLEAN.

    Databricks doesn't support identity columns in such targets either. `declared` does not include generated columns.
    """
    computed = [field.name for field in declared.fields if is_identity(field) or has_default(field)]
    if computed:
        yield UserError(
            "AUTOCDC_COMPUTED_COLUMN", location=inputs[0].location, target=target, columns=", ".join(computed)
        )
    flag = soft_deletes_of(inputs)
    field = None if flag is None else match_field(declared, flag)
    if field is not None and not isinstance(field.dataType, BooleanType):
        names = {"column": field.name, "type": field.dataType.simpleString()}
        yield UserError("AUTOCDC_SOFT_DELETES_TYPE", location=inputs[0].location, target=target, **names)


def check_partition_keys(
    target: QualifiedName, inputs: Sequence[CdcInput], keys: Sequence[str], partitions: Sequence[StructField]
) -> Iterator[UserError]:
    """Yield the faults of keys that are partition columns with a type whose values Delta changes on write."""
    for field in partitions:
        if field.name in keys and isinstance(field.dataType, BinaryType):
            yield UserError(
                "AUTOCDC_PARTITION_KEY_TYPE",
                location=inputs[0].location,
                target=target,
                key=field.name,
                type=field.dataType.simpleString(),
            )


def common_sequence_type(inputs: Sequence[CdcInput], *, literal: bool) -> DataType | None:
    """Return the common sequence type of the flows with (or without) a literal sequence; None without such flows."""
    common: DataType | None = None
    for flow in inputs:
        if flow.is_literal is literal:
            common = flow.sequence_type if common is None else common_sequence(common, flow.sequence_type)
    return common


def tracked_columns(inputs: Sequence[CdcInput], values: Sequence[StructField]) -> tuple[str, ...]:
    """Return the columns whose change begins a new row of SCD type 2; flows without a list use the others' list."""
    explicit = [flow.spec.track_history for flow in inputs if flow.spec.track_history.columns is not None]
    selection = explicit[0] if explicit else ColumnSelection()
    return tuple(field.name for field in select_fields(StructType(list(values)), selection))


def merge_columns(
    target: QualifiedName, inputs: Sequence[CdcInput], declared: StructType | None
) -> tuple[StructType, list[SluiceError]]:
    """Return the union of the flows' columns, in declared order or order of appearance, and the faults.

    `__START_AT` and `__END_AT` of SCD type 2, and the column that flags deleted rows, are not included, because they
    are not columns of a flow.
    """
    flag = soft_deletes_of(inputs)
    ours = {START_AT.lower(), END_AT.lower()} if inputs[0].spec.scd_type == 2 else set()
    ours |= set() if flag is None else {flag.lower()}
    columns = StructType([] if declared is None else [f for f in declared.fields if f.name.lower() not in ours])
    faults: list[SluiceError] = []
    for flow in inputs:
        extra = [field.name for field in flow.selected if match_field(columns, field.name) is None]
        if declared is not None and extra:
            faults.append(flow.fault("AUTOCDC_COLUMN_NOT_DECLARED", target=target, columns=", ".join(extra)))
        for field in flow.selected:
            merged = merge_schemas(columns, StructType([field]), AUTO_CDC)
            if merged is None:
                faults.append(_incompatible(target, columns, flow, field, inputs))
            columns = merged or columns
    return plain_schema(columns), faults


def _incompatible(
    target: QualifiedName, columns: StructType, flow: CdcInput, field: StructField, inputs: Sequence[CdcInput]
) -> UserError:
    known = match_field(columns, field.name)
    others = [other.name for other in inputs if match_field(StructType(list(other.selected)), field.name) is not None]
    return flow.fault(
        "AUTOCDC_INCOMPATIBLE_COLUMNS",
        target=target,
        column=field.name,
        type=field.dataType.simpleString(),
        other_flow=others[0] if others[0] != flow.name else "the declared schema",
        other_type="" if known is None else known.dataType.simpleString(),
    )


def stored_kind(stored: StructType) -> dict[str, Any]:
    """Return the keys and the SCD type that a table was built with; empty if AUTO CDC did not build it."""
    hidden = match_field(stored, HIDDEN_COLUMN)
    return dict((hidden.metadata or {}).get(METADATA_KEY, {})) if hidden is not None else {}


def check_drift(
    target: QualifiedName, inputs: Sequence[CdcInput], columns: StructType, stored: StructType, *, widens: bool = False
) -> Iterator[UserError]:
    """Yield the differences that prevent updates of the stored table; new columns and allowed wider types do not."""
    can_take = can_widen if widens else can_hold
    kind, spec, location = stored_kind(stored), inputs[0].spec, inputs[0].location
    if not kind:
        yield UserError("AUTOCDC_TARGET_NOT_OURS", location=location, target=target, column=HIDDEN_COLUMN)
        return
    if {key.lower() for key in kind["keys"]} != {bare_name(key).lower() for key in spec.keys}:
        names = {"stored_keys": ", ".join(kind["keys"]), "keys": ", ".join(spec.keys)}
        yield UserError("AUTOCDC_KEY_DRIFT", location=location, target=target, **names)
    if kind["scd_type"] != spec.scd_type:
        types = {"stored_scd_type": kind["scd_type"], "scd_type": spec.scd_type}
        yield UserError("AUTOCDC_SCD_TYPE_DRIFT", location=location, target=target, **types)
    before, now = kind.get(SOFT_DELETES_KEY), soft_deletes_of(inputs)
    if (before or "").lower() != (now or "").lower():
        flags = {"stored": _told_deletes(before), "declared": _told_deletes(now)}
        yield UserError("AUTOCDC_SOFT_DELETES_DRIFT", location=location, target=target, **flags)
    yield from _check_stored_sequence(target, inputs, stored, can_take)
    for field in columns.fields:
        before = match_field(stored, field.name)
        if before is not None and not can_take(before.dataType, field.dataType):
            types = {"stored_type": before.dataType.simpleString(), "type": field.dataType.simpleString()}
            yield UserError("AUTOCDC_COLUMN_DRIFT", location=location, target=target, column=field.name, **types)


def _told_deletes(flag: str | None) -> str:
    return "are removed" if flag is None else f"are flagged in column {flag}"


def _check_stored_sequence(
    target: QualifiedName,
    inputs: Sequence[CdcInput],
    stored: StructType,
    can_take: Callable[[DataType, DataType], bool],
) -> Iterator[UserError]:
    displayed = common_sequence_type(inputs, literal=False)
    if displayed is None:
        return
    hidden = match_field(struct_of(stored, HIDDEN_COLUMN), SEQUENCE)
    visible = match_field(stored, START_AT) if stored_kind(stored)["scd_type"] == 2 else None
    kept, shown = plain_type(stored_sequence(displayed)), plain_type(displayed)
    lost = [
        before.dataType
        for before, now in ((hidden, kept), (visible, shown))
        if before is not None
        and common_sequence(plain_type(before.dataType), now) != plain_type(before.dataType)
        # The order of events is stored in the widest type of its kind; only the visible columns become wider.
        and not (before is visible and not isinstance(shown, StructType) and can_take(before.dataType, shown))
    ]
    for before in lost[:1]:
        types = {"stored_type": before.simpleString(), "type": displayed.simpleString()}
        yield UserError("AUTOCDC_SEQUENCE_DRIFT", location=inputs[0].location, target=target, **types)


def can_hold(stored: DataType, value: DataType) -> bool:
    """Return whether a stored column can take values of a type, with at most fields added to its own type."""
    change = _change_for(stored, value)
    return change is not None and change.is_additive


def can_widen(stored: DataType, value: DataType) -> bool:
    """Return whether a stored column can take values of a type if its own type may widen, at any depth."""
    change = _change_for(stored, value)
    return change is not None and change.is_widening


def _change_for(stored: DataType, value: DataType) -> SchemaChange | None:
    """Return the change with which a stored column takes values of a type; None without a common type."""
    common = common_type(stored, value, AUTO_CDC)
    return None if common is None else type_change(stored.jsonValue(), common.jsonValue())
