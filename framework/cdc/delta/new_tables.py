"""The builder of a new Delta table at an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from delta.tables import DeltaTableBuilder
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def new_table(session: SparkSession, table: TableAddress, columns: StructType) -> DeltaTableBuilder:
    """Return the builder of a table with these columns at an address; it does nothing if the table exists.

    If given only a path, Delta builds a name from it without escaping backticks.
    """
    builder = DeltaTable.createIfNotExists(session).tableName(table.sql).addColumns(columns)
    return builder if table.path is None else builder.location(table.path)
