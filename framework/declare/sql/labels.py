"""Further functions for the code of a SQL file: names of columns, and expectations of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.plans.columns import quote_column
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from framework.declare.registry import QueryFunction


def labelled(frame: DataFrame, labels: tuple[tuple[str, str | None], ...]) -> DataFrame:
    """Return a DataFrame with new column names, and comments on the columns that have one.

    Args:
        frame: any DataFrame.
        labels: a name, and a comment or None, for each column.

    Raises:
        UserError: CREATE_VIEW_COLUMN_ARITY_MISMATCH.
    """
    if len(frame.columns) != len(labels):
        raise UserError(
            "CREATE_VIEW_COLUMN_ARITY_MISMATCH",
            location=caller_location(),
            named=len(labels),
            returned=len(frame.columns),
        )
    renamed = frame.toDF(*(name for name, _ in labels))
    if not any(comment for _, comment in labels):
        return renamed
    return renamed.select(*map(_commented, renamed.schema, (comment for _, comment in labels)))


def _commented(field: StructField, comment: str | None) -> Column:
    """Return a column with a comment added to its other metadata, such as its watermark."""
    from pyspark.sql.functions import col

    column = col(quote_column(field.name))
    return column if comment is None else column.alias(field.name, metadata={**field.metadata, "comment": comment})


def expecting(*expectations: Callable[[QueryFunction], QueryFunction], query: QueryFunction) -> QueryFunction:
    """Return a query function with expectations, in the order of the arguments.

    Nested calls would do the same, but Python's parser accepts no more than 200 of them.
    """
    for expectation in reversed(expectations):
        query = expectation(query)
    return query
