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
    """Return the builder of a table with these columns at an address; nothing happens if there is one.

    Of a path alone, Delta makes a name without escaping a backtick in it.
    """
    builder = DeltaTable.createIfNotExists(session).tableName(table.sql).addColumns(columns)
    return builder if table.path is None else builder.location(table.path)
