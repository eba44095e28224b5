"""Schema evolution by addition of columns, and by wider types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.errors import UserError
from framework.foundation.wider_types import wider_type

CHANGE_FEED_COLUMNS = (
    StructField("_change_type", StringType()),
    StructField("_commit_version", LongType()),
    StructField("_commit_timestamp", TimestampType()),
)


def merge_schemas(
    first: StructType, second: StructType, *, dataset: object, widens: bool = False, path: str = ""
) -> StructType:
    """Return all columns of both schemas, those of `first` in front; column names are case-insensitive.

    Args:
        first: a schema.
        second: another one.
        dataset: the dataset, for the error.
        widens: whether a column of `first` may become wider to have the values of `second` too.
        path: the prefix of the columns' names, for the error.

    Raises:
        UserError: SCHEMA_CANNOT_EVOLVE if a common column has two types.
    """
    merge = _Merge(dataset=dataset, widens=widens)
    return merge.schemas(first, second, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """The merge of the schemas of one dataset."""

    dataset: object
    widens: bool

    def schemas(self, first: StructType, second: StructType, path: str) -> StructType:
        merged = {field.name.lower(): field for field in first.fields}
        for field in second.fields:
            known = merged.get(field.name.lower())
            column = f"{path}{field.name}"
            merged[field.name.lower()] = (
                _nullable(field)
                if known is None
                else _nullable(known, self._types(known.dataType, field.dataType, column))
            )
        return StructType(list(merged.values()))

    def _types(self, first: DataType, second: DataType, column: str) -> DataType:
        if isinstance(first, StructType) and isinstance(second, StructType):
            return self.schemas(first, second, f"{column}.")
        if isinstance(first, ArrayType) and isinstance(second, ArrayType):
            return ArrayType(self._types(first.elementType, second.elementType, f"{column}.element"))
        if isinstance(first, MapType) and isinstance(second, MapType):
            return MapType(
                self._types(first.keyType, second.keyType, f"{column}.key"),
                self._types(first.valueType, second.valueType, f"{column}.value"),
            )
        if isinstance(second, NullType) or isinstance(first, NullType):
            return first if isinstance(second, NullType) else second
        wider = wider_type(first, second) if self.widens else None
        if first == second or wider is not None:
            return wider or first
        raise UserError(
            "SCHEMA_CANNOT_EVOLVE",
            dataset=self.dataset,
            column=column,
            stored=first.simpleString(),
            found=second.simpleString(),
        )


def without_hidden(schema: StructType) -> StructType:
    """The schema of a table as its readers see it."""
    return StructType([field for field in schema.fields if field.name != HIDDEN_COLUMN])


def as_nullable(schema: StructType) -> StructType:
    """The schema with every column nullable, as schema evolution requires."""
    return StructType([_nullable(field) for field in schema.fields])


def with_change_feed(schema: StructType) -> StructType:
    """The schema of the table's change data feed."""
    return StructType([*schema.fields, *CHANGE_FEED_COLUMNS])


def _nullable(field: StructField, kind: DataType | None = None) -> StructField:
    return StructField(field.name, kind or field.dataType, nullable=True, metadata=field.metadata)


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether the options of a read, in lower case, ask for a change feed."""
    return any(options.get(key, "").lower() == "true" for key in ("readchangefeed", "readchangedata"))
