"""The builder of a new Delta table at a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from delta.tables import DeltaTableBuilder
    from pyspark.sql import SparkSession


def new_table(session: SparkSession, path: str) -> DeltaTableBuilder:
    """Return the builder of the table at a path; nothing happens if there is one.

    Of a path alone, Delta makes a name without escaping a backtick in it.
    """
    return DeltaTable.createIfNotExists(session).tableName(TableAddress(path=path).sql).location(path)
