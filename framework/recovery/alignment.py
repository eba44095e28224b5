"""Pairs the columns of two tables, and finds for each pair the type in which its values are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.cdc.model.columns import find_field, match_field
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.recovery.comparison import ColumnFinding
from framework.schema.data_types import common_type
from framework.schema.lattice import COMPARISON

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPair:
    """A column of both tables.

    Args:
        name: as the first table spells it.
        first: its index in the first table; `second` in the second.
        data_type: the type in which the values are compared.
    """

    name: str
    first: int
    second: int
    data_type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The columns of two tables: key columns, other common columns, and columns that can't be compared."""

    keys: tuple[ColumnPair, ...]
    values: tuple[ColumnPair, ...]
    findings: tuple[ColumnFinding, ...]


def align(
    first: StructType, second: StructType, *, names: tuple[str, str], keys: Sequence[str], columns: Sequence[str]
) -> Alignment:
    """Pair the columns of two tables by name, without regard to case.

    Args:
        first: columns of the first table.
        second: columns of the second table.
        names: names of both tables, for error texts.
        keys: names of the key columns; () to compare whole rows.
        columns: names of the other columns to compare; () for all.

    Raises:
        UserError: RECONCILE_COLUMN_MISSING, RECONCILE_KEY_TYPES_DIFFER, RECONCILE_NOTHING_IN_COMMON.
    """
    for name in (*keys, *columns):
        for table, schema in zip(names, (first, second), strict=True):
            if find_field(schema, name) is None:
                hint = nearest_hint(name, schema.fieldNames())
                raise UserError("RECONCILE_COLUMN_MISSING", column=name, table=table, hint=hint)
    key_names = {name.lower() for name in keys}
    wanted = {name.lower() for name in columns} | key_names
    pairs, findings = _pairs(first, second)
    key_pairs = tuple(_key(name, pairs, findings) for name in keys)
    values = tuple(
        pair for pair in pairs if pair.name.lower() not in key_names and (not columns or pair.name.lower() in wanted)
    )
    if not key_pairs and not values:
        raise UserError("RECONCILE_NOTHING_IN_COMMON", first=names[0], second=names[1])
    shown = tuple(finding for finding in findings if not columns or finding.name.lower() in wanted)
    return Alignment(keys=key_pairs, values=values, findings=shown)


def _pairs(first: StructType, second: StructType) -> tuple[list[ColumnPair], list[ColumnFinding]]:
    pairs, findings, used = [], [], set()
    for place, field in enumerate(first.fields):
        other = match_field(second, field.name)
        if other is None:
            findings.append(ColumnFinding(name=field.name, first_type=_text(field), second_type=None))
            continue
        there = second.fields.index(other)
        used.add(there)
        data_type = common_type(field.dataType, other.dataType, COMPARISON)
        if data_type is None:
            findings.append(ColumnFinding(name=field.name, first_type=_text(field), second_type=_text(other)))
        else:
            pairs.append(ColumnPair(name=field.name, first=place, second=there, data_type=data_type))
    findings += [
        ColumnFinding(name=field.name, first_type=None, second_type=_text(field))
        for place, field in enumerate(second.fields)
        if place not in used
    ]
    return pairs, findings


def _key(name: str, pairs: Sequence[ColumnPair], findings: Sequence[ColumnFinding]) -> ColumnPair:
    found = next((pair for pair in pairs if pair.name.lower() == name.lower()), None)
    if found is None:
        finding = next(finding for finding in findings if finding.name.lower() == name.lower())
        raise UserError(
            "RECONCILE_KEY_TYPES_DIFFER", column=name, first_type=finding.first_type, second_type=finding.second_type
        )
    return found


def _text(field: StructField) -> str:
    return field.dataType.simpleString()
