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
"""The highest identity value that Delta has assigned."""

DEFAULTS_FEATURE = "delta.feature.allowColumnDefaults"
"""The table property without which Delta rejects column defaults."""

_ONLY_STORED = (HIGH_WATER_MARK, "EXISTS_DEFAULT")
_PREFIXES = (GENERATED, DEFAULT, IDENTITY, "EXISTS_DEFAULT")


def is_generated(field: StructField) -> bool:
    """Return whether a column is computed by an expression over other columns."""
    return GENERATED in field.metadata


def is_identity(field: StructField) -> bool:
    """Return whether a column is an identity column, with a distinct number in each row."""
    return START in field.metadata


def has_default(field: StructField) -> bool:
    """Return whether a column has a default, which is used for rows without the column."""
    return DEFAULT in field.metadata


def takes_no_values(field: StructField) -> bool:
    """Return whether a query must not return a column, because it is `GENERATED ALWAYS AS IDENTITY`."""
    return is_identity(field) and not field.metadata.get(EXPLICIT, False)


def is_computed(field: StructField) -> bool:
    """Return whether Delta computes a column, at least for rows without it."""
    return is_generated(field) or is_identity(field) or has_default(field)


def definition(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a computed column in its metadata, without entries that Delta itself adds.

    Examples:
        >>> definition({"comment": "a", "delta.generationExpression": "b + 1"}), definition({})
        ({'delta.generationExpression': 'b + 1'}, {})
    """
    kept = {key: value for key, value in metadata.items() if key.startswith(_PREFIXES)}
    return {key: value for key, value in kept.items() if key not in _ONLY_STORED}


def as_read(schema: StructType) -> StructType:
    """Return the columns as a reader sees them: as plain columns that are not computed."""
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
