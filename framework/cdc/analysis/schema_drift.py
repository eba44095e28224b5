"""Schema drift between a stored target and its flows: columns may be added, other changes need a full refresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.types import DataType, StructType

from framework.cdc.analysis.compatibility import common_sequence_type
from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.model.columns import bare_name, find_field, struct_of
from framework.cdc.model.reserved_names import HIDDEN_COLUMN, METADATA_KEY, SEQUENCE, START_AT
from framework.cdc.model.type_widening import common_sequence, common_type, plain_type, stored_sequence
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName


def stored_kind(stored: StructType) -> dict[str, Any]:
    """Return the keys and the SCD type that a table was built with; empty if AUTO CDC did not build it."""
    hidden = find_field(stored, HIDDEN_COLUMN)
    return dict((hidden.metadata or {}).get(METADATA_KEY, {})) if hidden is not None else {}


def check_drift(
    target: QualifiedName, inputs: Sequence[CdcInput], columns: StructType, stored: StructType
) -> Iterator[UserError]:
    """Yield the differences that prevent updates of the stored table; new columns do not."""
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
    yield from _check_sequence(target, inputs, stored)
    for field in columns.fields:
        before = find_field(stored, field.name)
        if before is not None and not _holds(before.dataType, field.dataType):
            types = {"stored_type": before.dataType.simpleString(), "type": field.dataType.simpleString()}
            yield UserError("AUTOCDC_COLUMN_DRIFT", location=location, target=target, column=field.name, **types)


def _check_sequence(target: QualifiedName, inputs: Sequence[CdcInput], stored: StructType) -> Iterator[UserError]:
    displayed = common_sequence_type(inputs, literal=False)
    if displayed is None:
        return
    hidden = find_field(struct_of(stored, HIDDEN_COLUMN), SEQUENCE)
    visible = find_field(stored, START_AT) if stored_kind(stored)["scd_type"] == 2 else None
    kept = plain_type(stored_sequence(displayed))
    lost = [
        before.dataType
        for before, now in ((hidden, kept), (visible, plain_type(displayed)))
        if before is not None and common_sequence(plain_type(before.dataType), now) != plain_type(before.dataType)
    ]
    for before in lost[:1]:
        types = {"stored_type": before.simpleString(), "type": displayed.simpleString()}
        yield UserError("AUTOCDC_SEQUENCE_DRIFT", location=inputs[0].location, target=target, **types)


def _holds(stored: DataType, value: DataType) -> bool:
    """Return whether a stored column can take values of a type with no change of its own type but added fields."""
    common = common_type(stored, value)
    return common is not None and _leaves(plain_type(stored)) <= _leaves(plain_type(common))


def _leaves(data_type: DataType, path: str = "") -> set[tuple[str, str]]:
    """Return the fields of a type at any depth, each with its path and its own type."""
    if isinstance(data_type, StructType):
        return {leaf for field in data_type.fields for leaf in _leaves(field.dataType, f"{path}.{field.name}")}
    names = [name for name in ("elementType", "keyType", "valueType") if hasattr(data_type, name)]
    if names:
        return {leaf for name in names for leaf in _leaves(getattr(data_type, name), f"{path}/{name}")}
    return {(path, data_type.simpleString())}
