"""What the code of a SQL file calls besides Python's interface: names of columns, and expectations of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from framework.declare.registry import QueryFunction


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


def expecting(*expectations: Callable[[QueryFunction], QueryFunction], query: QueryFunction) -> QueryFunction:
    """Return a query function with expectations, in the order of the arguments.

    Nested calls would do the same, but Python's parser accepts no more than 200 of them.
    """
    for expectation in reversed(expectations):
        query = expectation(query)
    return query
