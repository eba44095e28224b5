"""The columns of a materialized view as its declared schema has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.model.columns import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

_NULL = "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: {}."
"""Delta's own text. `CREATE OR REPLACE TABLE … AS SELECT` makes all columns nullable, so the query checks its rows."""


def as_declared(frame: DataFrame, declared: StructType) -> DataFrame:
    """Return the declared columns, with their comments; those that the query does not return are NULL.

    A row with NULL in a column that is declared NOT NULL fails the query.

    Args:
        frame: the rows of the view; its columns have the declared types.
        declared: the declared schema.
    """
    names = {name.lower(): name for name in frame.columns}
    return frame.select(*(_column(field, names.get(field.name.lower())) for field in declared.fields))


def _column(field: StructField, name: str | None) -> Column:
    value = F.lit(None).cast(field.dataType) if name is None else F.col(quote(name))
    if not field.nullable:
        value = F.coalesce(value, F.raise_error(F.lit(_NULL.format(field.name))).cast(field.dataType))
    return value.alias(field.name, metadata=field.metadata)
