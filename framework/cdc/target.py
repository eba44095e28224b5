"""What the AUTO CDC flows of one target together make of it, decided before anything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    DataType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.cdc.columns import bare_name, find_field, struct_of
from framework.cdc.data_types import common_sequence, merge_schemas, plain_type, stored_sequence
from framework.cdc.drift import check_drift, stored_kind
from framework.cdc.inputs import CdcInput
from framework.cdc.reserved import CONTENT, HIDDEN_COLUMN, METADATA_KEY, ONCE, SEQUENCE
from framework.cdc.rules import check_flow
from framework.foundation.errors import GraphErrors, SluiceError, UserError
from framework.foundation.names import QualifiedName

__all__ = ["CdcInput", "CdcTarget", "plan_target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcTarget:
    """The target that its flows describe; a value that compares and hashes.

    Args:
        name: the target's.
        keys: the key columns, as the table spells them.
        scd_type: 1 or 2.
        table_json: the JSON of the physical schema: all columns and the hidden one.
        literal_flows: the once flows whose sequence is a literal, and so sorts before everything.
    """

    name: QualifiedName
    keys: tuple[str, ...]
    scd_type: int
    table_json: str
    literal_flows: tuple[QualifiedName, ...]

    @property
    def table_schema(self) -> StructType:
        """The physical schema; the hidden column's metadata says how the table is kept."""
        return StructType.fromJson(json.loads(self.table_json))

    @property
    def visible_schema(self) -> StructType:
        """What readers inside the pipeline see: the physical schema without the hidden column."""
        return StructType([field for field in self.table_schema.fields if field.name != HIDDEN_COLUMN])

    @property
    def hidden_type(self) -> StructType:
        """The type of the hidden column."""
        return struct_of(self.table_schema, HIDDEN_COLUMN)

    @property
    def sequence_type(self) -> DataType | None:
        """The type of incremental flows' sequences; None while there are only literal ones."""
        field = find_field(self.hidden_type, SEQUENCE)
        return None if field is None else field.dataType

    @property
    def value_fields(self) -> tuple[StructField, ...]:
        """The visible columns that are no keys."""
        return tuple(field for field in self.visible_schema.fields if field.name not in self.keys)

    @property
    def companion_schema(self) -> StructType:
        """The companion table: the keys, and one struct that says what is known of them."""
        keys = [StructField(key, self.table_schema[key].dataType) for key in self.keys]
        order = [field for field in self.hidden_type.fields if field.name in {SEQUENCE, ONCE}]
        ours = StructType([*order, StructField("operation", StringType()), StructField("recorded_at", TimestampType())])
        return StructType([*keys, StructField(HIDDEN_COLUMN, ours)])


def plan_target(
    target: QualifiedName,
    inputs: Sequence[CdcInput],
    *,
    declared_schema: StructType | None = None,
    stored: StructType | None = None,
) -> CdcTarget:
    """Decide what the flows of a target make of it.

    Args:
        target: the target's name.
        inputs: its AUTO CDC flows, at least one, in order of declaration.
        declared_schema: the schema the user declared for the target, if any.
        stored: the physical schema of the table as it is now, if it exists.

    Raises:
        UserError: one fault of the flows, or of the flows against the stored table; when there are
            several, GraphErrors with all of them.
    """
    _raise_all([fault for flow in inputs for fault in check_flow(flow)])
    _raise_all(list(_check_together(target, inputs)))
    sequence = _sequence_type(inputs)
    columns = _columns(target, inputs, declared_schema)
    keys = tuple(_spelling(columns, key) for key in inputs[0].spec.keys)
    kind = {"keys": list(keys), "scd_type": inputs[0].spec.scd_type}
    hidden = StructField(HIDDEN_COLUMN, _hidden_type(sequence), nullable=True, metadata={METADATA_KEY: kind})
    wanted = StructType([*columns.fields, hidden])
    if stored is not None:
        _raise_all(list(check_drift(target, wanted, stored, inputs[0].location)))
        merged = merge_schemas(stored, wanted)
        assert merged is not None  # check_drift found a common type of every column
        keys = tuple(stored_kind(stored)["keys"])
        wanted = plain_schema(merged)
    return CdcTarget(
        name=target,
        keys=keys,
        scd_type=inputs[0].spec.scd_type,
        table_json=wanted.json(),
        literal_flows=tuple(flow.name for flow in inputs if flow.is_literal),
    )


def plain_schema(schema: StructType) -> StructType:
    """The schema as a Delta table keeps it."""
    plain = plain_type(schema)
    assert isinstance(plain, StructType)  # a struct stays one
    return plain


def _raise_all(faults: Sequence[SluiceError]) -> None:
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise GraphErrors(faults)


def _check_together(target: QualifiedName, inputs: Sequence[CdcInput]) -> Iterator[UserError]:
    first = inputs[0]
    for flow in inputs[1:]:
        if _folded_keys(flow) != _folded_keys(first):
            yield UserError(
                "AUTOCDC_DIFFERENT_KEYS",
                location=flow.location,
                target=target,
                flow=flow.name,
                keys=", ".join(flow.spec.keys),
                other_flow=first.name,
                other_keys=", ".join(first.spec.keys),
            )
        if flow.spec.scd_type != first.spec.scd_type:
            yield UserError(
                "AUTOCDC_DIFFERENT_SCD_TYPES",
                location=flow.location,
                target=target,
                flow=flow.name,
                scd_type=flow.spec.scd_type,
                other_flow=first.name,
                other_scd_type=first.spec.scd_type,
            )
    yield from _check_sequences(target, [flow for flow in inputs if not flow.is_literal])


def _folded_keys(flow: CdcInput) -> set[str]:
    return {bare_name(key).lower() for key in flow.spec.keys}


def _check_sequences(target: QualifiedName, ordered: Sequence[CdcInput]) -> Iterator[UserError]:
    common: DataType = NullType()
    for flow in ordered:
        own = flow.type_of(flow.spec.sequence_by)
        wider = common_sequence(common, own)
        if wider is None:
            yield UserError(
                "AUTOCDC_INCOMPATIBLE_SEQUENCES",
                location=flow.location,
                target=target,
                flow=flow.name,
                type=own.simpleString(),
                other_flow=ordered[0].name,
                other_type=common.simpleString(),
            )
            return
        common = wider


def _sequence_type(inputs: Sequence[CdcInput]) -> DataType | None:
    common: DataType | None = None
    for flow in inputs:
        if not flow.is_literal:
            own = flow.type_of(flow.spec.sequence_by)
            common = own if common is None else common_sequence(common, own)
    return None if common is None else plain_type(stored_sequence(common))


def _columns(target: QualifiedName, inputs: Sequence[CdcInput], declared: StructType | None) -> StructType:
    columns = StructType([]) if declared is None else declared
    faults: list[SluiceError] = []
    for flow in inputs:
        extra = [field.name for field in flow.selected if find_field(columns, field.name) is None]
        if declared is not None and extra:
            faults.append(
                UserError(
                    "AUTOCDC_COLUMN_NOT_DECLARED",
                    location=flow.location,
                    flow=flow.name,
                    target=target,
                    columns=", ".join(extra),
                )
            )
        for field in flow.selected:
            columns, fault = _add_column(target, columns, flow, field, inputs)
            faults.extend([fault] if fault else [])
    _raise_all(faults)
    return plain_schema(columns)


def _add_column(
    target: QualifiedName, columns: StructType, flow: CdcInput, field: StructField, inputs: Sequence[CdcInput]
) -> tuple[StructType, UserError | None]:
    merged = merge_schemas(columns, StructType([field]))
    if merged is not None:
        return merged, None
    known = find_field(columns, field.name)
    others = [other.name for other in inputs if find_field(StructType(list(other.selected)), field.name) is not None]
    return columns, UserError(
        "AUTOCDC_INCOMPATIBLE_COLUMNS",
        location=flow.location,
        target=target,
        flow=flow.name,
        column=field.name,
        type=field.dataType.simpleString(),
        other_flow=others[0],
        other_type="" if known is None else known.dataType.simpleString(),
    )


def _spelling(columns: StructType, key: str) -> str:
    field = find_field(columns, key)
    return bare_name(key) if field is None else field.name


def _hidden_type(sequence: DataType | None) -> StructType:
    fields = [] if sequence is None else [StructField(SEQUENCE, sequence)]
    return StructType([*fields, StructField(ONCE, DoubleType()), StructField(CONTENT, LongType())])
