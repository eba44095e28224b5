"""The error for a name that is neither a dataset nor a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.foundation.names import QualifiedName, split_parts
from framework.graph.rules import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.graph.tables import KnownTables


def missing_table(
    name: str,
    *,
    dataset: QualifiedName | None,
    known: Iterable[QualifiedName],
    tables: KnownTables,
    spark: SparkSession,
) -> UserError:
    """Return the error of a read, with the nearest dataset and, for a name of three parts, the known catalogs.

    Args:
        name: the name as written in the query.
        dataset: its full name; None for a path.
        known: the datasets of the pipeline.
        tables: lists the catalogs.
        spark: the session of the query.
    """
    hint = did_you_mean(dataset, known) if dataset is not None else ""
    if dataset is not None and len(split_parts(name)) == 3:
        catalogs = tables.catalogs(spark)
        problem = "" if dataset.catalog in catalogs else f" Catalog {dataset.catalog} does not exist."
        hint += f"{problem} Known catalogs: {', '.join(catalogs)}."
    return UserError("TABLE_OR_VIEW_NOT_FOUND", location=caller_location(), name=name, hint=hint)
