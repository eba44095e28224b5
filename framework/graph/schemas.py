"""Schema evolution by addition of columns."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.errors import UserError

CHANGE_FEED_COLUMNS = (
    ("_change_type", "string"),
    ("_commit_version", "bigint"),
    ("_commit_timestamp", "timestamp"),
)


def merge_schemas(first: StructType, second: StructType, *, dataset: object, path: str = "") -> StructType:
    """Return all columns of both schemas, those of `first` in front; column names are case-insensitive.

    Raises:
        UserError: SCHEMA_CANNOT_EVOLVE if a common column has two types.
    """
    merged = {field.name.lower(): field for field in first.fields}
    for field in second.fields:
        known = merged.get(field.name.lower())
        column = f"{path}{field.name}"
        merged[field.name.lower()] = (
            _nullable(field)
            if known is None
            else _nullable(known, _merge_types(known.dataType, field.dataType, dataset, column))
        )
    return StructType(list(merged.values()))


def without_hidden(schema: StructType) -> StructType:
    """The schema of a table as its readers see it."""
    return StructType([field for field in schema.fields if field.name != HIDDEN_COLUMN])


def as_nullable(schema: StructType) -> StructType:
    """The schema with every column nullable, as schema evolution requires."""
    return StructType([_nullable(field) for field in schema.fields])


def with_change_feed(schema: StructType) -> StructType:
    """The schema of the table's change data feed."""
    grown = StructType(list(schema.fields))
    for name, kind in CHANGE_FEED_COLUMNS:
        grown = grown.add(name, kind)
    return grown


def _nullable(field: StructField, kind: DataType | None = None) -> StructField:
    return StructField(field.name, kind or field.dataType, nullable=True, metadata=field.metadata)


def _merge_types(first: DataType, second: DataType, dataset: object, column: str) -> DataType:
    if isinstance(first, StructType) and isinstance(second, StructType):
        return merge_schemas(first, second, dataset=dataset, path=f"{column}.")
    if isinstance(first, ArrayType) and isinstance(second, ArrayType):
        return ArrayType(_merge_types(first.elementType, second.elementType, dataset, f"{column}.element"))
    if isinstance(first, MapType) and isinstance(second, MapType):
        return MapType(
            _merge_types(first.keyType, second.keyType, dataset, f"{column}.key"),
            _merge_types(first.valueType, second.valueType, dataset, f"{column}.value"),
        )
    if first != second:
        raise UserError(
            "SCHEMA_CANNOT_EVOLVE",
            dataset=dataset,
            column=column,
            stored=first.simpleString(),
            found=second.simpleString(),
        )
    return first


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether the options of a read, in lower case, ask for a change feed."""
    return any(options.get(key, "").lower() == "true" for key in ("readchangefeed", "readchangedata"))
