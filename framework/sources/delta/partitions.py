"""Conditions on partition columns, compared with partition values, which a Delta log stores as strings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from framework.sources.delta.log import LogTip
from framework.sources.port import ColumnType, ColumnValues

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_TYPES: Mapping[str, ColumnType] = {
    "string": ColumnType.STRING,
    "date": ColumnType.DATE,
    "boolean": ColumnType.BOOLEAN,
    **dict.fromkeys(("byte", "short", "integer", "long"), ColumnType.INTEGER),
}
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCondition:
    """A condition on one partition column.

    Args:
        key: the column's physical name in the log, which column mapping keeps when the column is renamed.
        type: its type.
        values: the values of interest; None is NULL.
    """

    key: str
    type: ColumnType
    values: frozenset[str | None]

    def may_match(self, text: str | None) -> bool:
        """Return whether a file with this partition value may have rows of interest; True for an unknown format."""
        if not text:  # Delta writes NULL and the empty string alike
            return None in self.values
        if self.type is ColumnType.STRING:
            return text in self.values
        value = _canonical(text, self.type)
        return value is None or value in self.values


def partition_conditions(only: tuple[ColumnValues, ...], tip: LogTip) -> tuple[PartitionCondition, ...]:
    """Return the conditions that can be decided by the partition values of a table.

    A condition is left out if its column is not a partition column or now has a different type.

    Args:
        only: the conditions of a query.
        tip: the table's metadata.
    """
    partitions = {name.lower() for name in tip.partition_columns}
    fields = {str(field["name"]).lower(): field for field in _fields(tip) if str(field["name"]).lower() in partitions}
    found = (_of_field(condition, fields.get(condition.column.lower())) for condition in only)
    return tuple(condition for condition in found if condition is not None)


def _of_field(condition: ColumnValues, field: Mapping[str, Any] | None) -> PartitionCondition | None:
    if field is None or not isinstance(field["type"], str) or _TYPES.get(field["type"]) is not condition.type:
        return None
    metadata = field.get("metadata") or {}
    if any(key.startswith("__") for key in metadata):  # a collation, or a string that is padded on read
        return None
    key = str(metadata.get(_PHYSICAL_NAME, field["name"]))
    return PartitionCondition(key=key, type=condition.type, values=frozenset(condition.values))


def _fields(tip: LogTip) -> list[dict[str, Any]]:
    try:
        fields = json.loads(tip.schema or "{}").get("fields", [])
    except (ValueError, AttributeError):
        return []
    return fields if isinstance(fields, list) else []


def _canonical(text: str, kind: ColumnType) -> str | None:
    """Return a value in the format of `ColumnValues`; None if its format is unknown."""
    if kind is ColumnType.INTEGER:
        return str(int(text)) if _WHOLE.fullmatch(text) else None
    if kind is ColumnType.BOOLEAN:
        return text if text in {"true", "false"} else None
    try:
        return date.fromisoformat(text).isoformat() if _DAY.fullmatch(text) else None
    except ValueError:
        return None
