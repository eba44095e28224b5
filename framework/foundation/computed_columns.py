"""Columns that Delta computes when it writes a row: generated and identity columns, and columns with a default.

Delta and Spark keep their definitions in the metadata of the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

GENERATED = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
IDENTITY = "delta.identity."
START, STEP = f"{IDENTITY}start", f"{IDENTITY}step"
EXPLICIT = f"{IDENTITY}allowExplicitInsert"
HIGH_WATER_MARK = f"{IDENTITY}highWaterMark"
"""The last number that Delta has given."""

DEFAULTS_FEATURE = "delta.feature.allowColumnDefaults"
"""The property without which Delta refuses defaults."""

_ONLY_STORED = (HIGH_WATER_MARK, "EXISTS_DEFAULT")
_PREFIXES = (GENERATED, DEFAULT, IDENTITY, "EXISTS_DEFAULT")


def is_generated(field: StructField) -> bool:
    """Return whether a column has the value of an expression over other columns."""
    return GENERATED in field.metadata


def is_identity(field: StructField) -> bool:
    """Return whether a column has a number of its own in each row."""
    return START in field.metadata


def has_default(field: StructField) -> bool:
    """Return whether a column that a row does not have gets a value."""
    return DEFAULT in field.metadata


def takes_no_values(field: StructField) -> bool:
    """Return whether a query must not return a column: `GENERATED ALWAYS AS IDENTITY`."""
    return is_identity(field) and not field.metadata.get(EXPLICIT, False)


def is_computed(field: StructField) -> bool:
    """Return whether Delta computes a column, at least where a row does not have it."""
    return is_generated(field) or is_identity(field) or has_default(field)


def definition(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a column's metadata says of its computation, without what Delta itself adds to it.

    Examples:
        >>> definition({"comment": "a", "delta.generationExpression": "b + 1"}), definition({})
        ({'delta.generationExpression': 'b + 1'}, {})
    """
    kept = {key: value for key, value in metadata.items() if key.startswith(_PREFIXES)}
    return {key: value for key, value in kept.items() if key not in _ONLY_STORED}


def as_read(schema: StructType) -> StructType:
    """Return the columns as a reader of the table has them: with their values, and not computed again."""
    from pyspark.sql.types import StructField, StructType

    if not any(key.startswith(_PREFIXES) for field in schema.fields for key in field.metadata):
        return schema
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {key: value for key, value in field.metadata.items() if not key.startswith(_PREFIXES)},
            )
            for field in schema.fields
        ]
    )
