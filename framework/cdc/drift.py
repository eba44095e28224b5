"""A stored target against what its flows say now: what may be added, and what needs a full refresh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import DataType, StructType

from framework.cdc.columns import find_field
from framework.cdc.data_types import common_sequence, common_type, plain_type
from framework.cdc.reserved import HIDDEN_COLUMN, METADATA_KEY, SEQUENCE
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName


def stored_kind(stored: StructType) -> dict[str, Any]:
    """The keys and the SCD type that a table was built with; empty when AUTO CDC did not build it."""
    hidden = find_field(stored, HIDDEN_COLUMN)
    return dict((hidden.metadata or {}).get(METADATA_KEY, {})) if hidden is not None else {}


def check_drift(
    target: QualifiedName, wanted: StructType, stored: StructType, location: SourceLocation | None
) -> Iterator[UserError]:
    """The faults of going on with a stored table; columns that are only new are none."""
    kind, now = stored_kind(stored), stored_kind(wanted)
    if not kind:
        yield UserError("AUTOCDC_TARGET_NOT_OURS", location=location, target=target, column=HIDDEN_COLUMN)
        return
    if {key.lower() for key in kind["keys"]} != {key.lower() for key in now["keys"]}:
        names = {"stored_keys": ", ".join(kind["keys"]), "keys": ", ".join(now["keys"])}
        yield UserError("AUTOCDC_KEY_DRIFT", location=location, target=target, **names)
    if kind["scd_type"] != now["scd_type"]:
        types = {"stored_scd_type": kind["scd_type"], "scd_type": now["scd_type"]}
        yield UserError("AUTOCDC_SCD_TYPE_DRIFT", location=location, target=target, **types)
    yield from _check_sequence(target, wanted, stored, location)
    yield from _check_columns(target, wanted, stored, location)


def _check_sequence(
    target: QualifiedName, wanted: StructType, stored: StructType, location: SourceLocation | None
) -> Iterator[UserError]:
    before, now = _sequence_type(stored), _sequence_type(wanted)
    if before is not None and now is not None and common_sequence(before, now) != before:
        types = {"stored_type": before.simpleString(), "type": now.simpleString()}
        yield UserError("AUTOCDC_SEQUENCE_DRIFT", location=location, target=target, **types)


def _sequence_type(schema: StructType) -> DataType | None:
    hidden = schema[HIDDEN_COLUMN].dataType
    field = find_field(hidden, SEQUENCE) if isinstance(hidden, StructType) else None
    return None if field is None else field.dataType


def _check_columns(
    target: QualifiedName, wanted: StructType, stored: StructType, location: SourceLocation | None
) -> Iterator[UserError]:
    for field in wanted.fields:
        before = find_field(stored, field.name)
        if field.name == HIDDEN_COLUMN or before is None or _holds(before.dataType, field.dataType):
            continue
        types = {"stored_type": before.dataType.simpleString(), "type": field.dataType.simpleString()}
        yield UserError("AUTOCDC_COLUMN_DRIFT", location=location, target=target, column=field.name, **types)


def _holds(stored: DataType, value: DataType) -> bool:
    """Whether a stored column can take the values without a change of what is stored but added fields."""
    common = common_type(stored, value)
    return common is not None and _leaves(plain_type(stored)) <= _leaves(plain_type(common))


def _leaves(data_type: DataType, path: str = "") -> set[tuple[str, str]]:
    """The fields of a type at any depth, each with its path and its own type."""
    if isinstance(data_type, StructType):
        return {leaf for field in data_type.fields for leaf in _leaves(field.dataType, f"{path}.{field.name}")}
    names = [name for name in ("elementType", "keyType", "valueType") if hasattr(data_type, name)]
    if names:
        return {leaf for name in names for leaf in _leaves(getattr(data_type, name), f"{path}/{name}")}
    return {(path, data_type.simpleString())}
