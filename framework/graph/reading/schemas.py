"""Schema evolution: adds columns, and widens types."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.errors import UserError
from framework.schema import data_types as common
from framework.schema.lattice import GROWN_TABLE, SAME_TYPES

CHANGE_FEED_COLUMNS = (
    StructField("_change_type", StringType()),
    StructField("_commit_version", LongType()),
    StructField("_commit_timestamp", TimestampType()),
)


def merge_schemas(first: StructType, second: StructType, *, dataset: object, widens: bool = False) -> StructType:
    """Return all columns of both schemas, the columns of `first` in front; column names are case-insensitive.

    Args:
        first: a schema.
        second: another schema.
        dataset: the dataset, for the error.
        widens: whether columns of `first` may become wider to hold the values of `second`.

    Raises:
        UserError: SCHEMA_CANNOT_EVOLVE if a common column has two types.
    """
    allowed = GROWN_TABLE if widens else SAME_TYPES
    merged = common.merge_schemas(first, second, allowed)
    if merged is not None:
        return merged
    conflict = common.first_conflict(first, second, allowed)
    assert conflict is not None  # the merge has found one
    column, stored, found = conflict
    raise UserError(
        "SCHEMA_CANNOT_EVOLVE", dataset=dataset, column=column, stored=stored.simpleString(), found=found.simpleString()
    )


def without_hidden(schema: StructType) -> StructType:
    """The schema of a table as its readers see it."""
    return StructType([field for field in schema.fields if field.name != HIDDEN_COLUMN])


def as_nullable(schema: StructType) -> StructType:
    """The schema with every column nullable, as schema evolution requires."""
    return StructType([StructField(f.name, f.dataType, nullable=True, metadata=f.metadata) for f in schema.fields])


def with_change_feed(schema: StructType) -> StructType:
    """The schema of the table's change data feed."""
    return StructType([*schema.fields, *CHANGE_FEED_COLUMNS])


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether the options of a read, in lower case, ask for a change feed."""
    return any(options.get(key, "").lower() == "true" for key in ("readchangefeed", "readchangedata"))
