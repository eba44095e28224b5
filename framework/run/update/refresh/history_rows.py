"""Comparison of an earlier table's rows with a rebuilt table's: aligned columns, row identities, and lost rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from framework.cdc.model.columns import align_column, column, match_field
from framework.cdc.model.equality import comparable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

IDENTITY = "__sluice_identity"
"""The column that `identified` adds."""

_NUMBER, _COUNT = "__sluice_number", "__sluice_count"


def aligned(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with the columns and types of another schema; other columns are dropped."""
    pairs = [(field, match_field(rows.schema, field.name)) for field in schema.fields]
    return rows.select(
        *(align_column(column(own.name), own.dataType, field.dataType).alias(field.name) for field, own in pairs if own)
    )


def lost_by_keys(copy: DataFrame, rebuilt: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows of the copy whose keys are missing in the rebuild."""
    known = identified(rebuilt, keys).select(IDENTITY).distinct()
    return identified(copy, keys).join(known, IDENTITY, "left_anti").drop(IDENTITY)


def lost_rows(copy: DataFrame, rebuilt: DataFrame, names: Sequence[str] = ()) -> DataFrame:
    """Return the rows of the copy that are missing in the rebuild; of equal rows, only the missing number.

    Args:
        copy: the rows.
        rebuilt: the rows of the rebuild.
        names: the columns that identify equal rows; () for all columns of the copy.
    """
    names = names or copy.columns
    counts = identified(rebuilt, names).groupBy(IDENTITY).agg(F.count(F.lit(1)).alias(_COUNT))
    alike = Window.partitionBy(IDENTITY).orderBy(F.lit(0))
    numbered = identified(copy, names).withColumn(_NUMBER, F.row_number().over(alike))
    joined = numbered.join(counts, IDENTITY, "left")
    is_lost = column(_NUMBER) > F.coalesce(column(_COUNT), F.lit(0))
    return joined.where(is_lost).drop(IDENTITY, _NUMBER, _COUNT)


def identified(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return rows with the column `IDENTITY`, a never-null struct of the named columns."""
    fields = [field for name in names if (field := match_field(rows.schema, name)) is not None]
    values = [comparable(column(field.name), field.dataType).alias(f"c{place}") for place, field in enumerate(fields)]
    return rows.withColumn(IDENTITY, F.struct(*values))
