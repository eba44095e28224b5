"""Columns of a query by the names that a SQL file gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def labelled(frame: DataFrame, labels: tuple[tuple[str, str | None], ...]) -> DataFrame:
    """Return a DataFrame with other names for its columns, and comments for those that have one.

    Args:
        frame: any DataFrame.
        labels: a name, and a comment or None, for each column.

    Raises:
        UserError: CREATE_VIEW_COLUMN_ARITY_MISMATCH.
    """
    if len(frame.columns) != len(labels):
        raise UserError(
            "CREATE_VIEW_COLUMN_ARITY_MISMATCH", location=caller_location(), named=len(labels),
            returned=len(frame.columns),
        )  # fmt: skip
    renamed = frame.toDF(*(name for name, _ in labels))
    for name, comment in labels:
        if comment is not None:
            renamed = renamed.withMetadata(name, {"comment": comment})
    return renamed
