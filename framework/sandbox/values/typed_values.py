"""Values of tests in the types of Spark: each value is converted exactly, or is a misfit with its cause.

A cell of a text table (`TextCell`) becomes any type. A Python text becomes text, and what Python has no short literal
for: decimals, dates, times, intervals, binary values, and nested values as JSON. It is neither a number nor a boolean.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    Row,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from framework.foundation.nearest import nearest_hint
from framework.sandbox.values.misfits import MisfitError, wrong_type
from framework.sandbox.values.moments import MOMENTS
from framework.sandbox.values.scalars import SCALARS
from framework.sandbox.values.text_tables import TextCell


def typed_value(value: object, data_type: DataType, zone: tzinfo = UTC) -> Any:
    """Return a value as Spark has it in a type.

    Args:
        value: a Python value, or a `TextCell`; None is NULL in every type.
        data_type: the type.
        zone: the zone of points in time without one, as the setting `spark.sql.session.timeZone` is for Spark.

    Returns:
        What PySpark returns for such a value, but a TIMESTAMP has the time zone UTC, and a BINARY is `bytes`.

    Raises:
        MisfitError: the type does not have the value exactly.
    """
    if value is None:
        return None
    try:
        return _converted(of_python(value), data_type, zone)
    except MisfitError as error:
        error.wanted = error.wanted or data_type.simpleString()
        raise


def _converted(value: object, data_type: DataType, zone: tzinfo) -> Any:
    kind = type(data_type)
    if kind in SCALARS:
        return SCALARS[kind](value, data_type)
    if kind in MOMENTS:
        return MOMENTS[kind](value, zone)
    if kind in _NESTED:
        return _NESTED[kind](value, _Wanted(data_type=data_type, zone=zone))
    raise MisfitError(value, "the test kit has no values of this type.")


def of_spark(value: Any, data_type: DataType) -> Any:
    """Return a value that PySpark collected as `typed_value` returns it.

    PySpark returns a TIMESTAMP as the local time of the process, and a BINARY as `bytearray`.
    """
    if value is None:
        return None
    match data_type:
        case TimestampType():
            return value.astimezone(UTC)
        case StructType():
            parts = zip(value, data_type.fields, strict=True)
            return Row(*data_type.fieldNames())(*(of_spark(each, field.dataType) for each, field in parts))
        case ArrayType():
            return [of_spark(each, data_type.elementType) for each in value]
        case MapType():
            key, inner = data_type.keyType, data_type.valueType
            return {of_spark(name, key): of_spark(each, inner) for name, each in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def of_python(value: Any) -> object:
    """Return a scalar or an array of NumPy as a value of Python; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") and hasattr(value, "dtype") else value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The type and the time zone of a conversion."""

    data_type: Any
    zone: tzinfo

    def inner(self, value: object, data_type: DataType, place: str) -> Any:
        """Return a part of a nested value in its type."""
        try:
            return typed_value(value, data_type, self.zone)
        except MisfitError as error:
            raise error.within(place) from None


def _array(value: object, wanted: _Wanted) -> list[Any]:
    found = _parsed(value)
    if not isinstance(found, list | tuple):
        raise wrong_type(value, "a list")
    element = wanted.data_type.elementType
    return [wanted.inner(each, element, f"[{place}]") for place, each in enumerate(found)]


def _map(value: object, wanted: _Wanted) -> dict[Any, Any]:
    found = _parsed(value)
    if not isinstance(found, Mapping):
        raise wrong_type(value, "a dict")
    is_json = isinstance(value, str)  # whose keys are texts in every type
    keys, values = wanted.data_type.keyType, wanted.data_type.valueType
    converted = {}
    for key, each in found.items():
        if key is None:
            raise MisfitError(value, "a key is NULL.")
        typed = wanted.inner(TextCell(key) if is_json else key, keys, f"[{key!r}]")
        converted[_as_key(typed)] = wanted.inner(each, values, f"[{key!r}]")
    if len(converted) != len(found):
        raise MisfitError(value, "two of its keys are equal.")
    return converted


def _as_key(value: Any) -> Any:
    """Return a key of a map as a dict can have it."""
    return tuple(value) if isinstance(value, list) else value


def _struct(value: object, wanted: _Wanted) -> Row:
    found, fields = _parsed(value), wanted.data_type.fields
    names = [field.name for field in fields]
    found = as_mapping(found)
    if isinstance(found, list | tuple):
        if len(found) != len(fields):
            raise MisfitError(value, f"it has {len(found)} values for the fields {', '.join(names)}.")
        found = dict(zip(names, found, strict=True))
    if not isinstance(found, Mapping):
        raise wrong_type(value, "a dict or a tuple")
    by_name = {matching_name(key, names): each for key, each in found.items()}
    return Row(*names)(*(wanted.inner(by_name.get(each.name), each.dataType, f".{each.name}") for each in fields))


def matching_name(key: object, names: list[str]) -> str:
    """Return the name of a column or field that a key has: the same, or the only one in another case.

    Raises:
        MisfitError: there is none.
    """
    if key in names:
        return str(key)
    similar = [name for name in names if name.lower() == str(key).lower()]
    if len(similar) != 1:
        raise MisfitError(key, f"it has no field {key!r}.{nearest_hint(str(key), names)}")
    return similar[0]


def as_mapping(value: object) -> object:
    """Return a `Row`, a named tuple or a dataclass as a dict; everything else as it is."""
    if isinstance(value, tuple):
        names = getattr(value, "__fields__", getattr(value, "_fields", None))
        return value if names is None else dict(zip(names, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def _variant(value: object, wanted: _Wanted) -> VariantVal:
    if isinstance(value, VariantVal):
        return value
    text = value if isinstance(value, str) else json.dumps(_json_value(value, wanted.zone))
    try:
        return VariantVal.parseJson(text)
    except (PySparkException, ValueError) as error:
        raise MisfitError(value, f"it is not JSON: {error}.") from None


def _json_value(value: object, zone: tzinfo) -> Any:
    """Return a Python value as JSON for a VARIANT."""
    value = as_mapping(value)
    match value:
        case Mapping():
            return {str(key): _json_value(each, zone) for key, each in value.items()}
        case list() | tuple():
            return [_json_value(each, zone) for each in value]
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            raise wrong_type(value, "a value of JSON")


def _parsed(value: object) -> object:
    """Return the value of a JSON text; everything else as it is."""
    if not isinstance(value, str):
        return as_mapping(value)
    try:
        return json.loads(value, parse_float=Decimal)
    except ValueError as error:
        raise MisfitError(value, f"it is not JSON: {error}.") from None


_NESTED: Mapping[type[DataType], Callable[[object, _Wanted], object]] = {
    ArrayType: _array,
    MapType: _map,
    StructType: _struct,
    VariantType: _variant,
}
