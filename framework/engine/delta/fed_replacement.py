"""Replaces rows, columns and definition of a table as `createOrReplace`, in a transaction that checks what it replaces.

`createOrReplace` gives the table a new id, and a stream that has read the table under its old id fails. Here a table
with a change data feed keeps its id, so that streams of the feed can continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from framework.engine.delta.table_overwrite import ALL_PARTITIONS, clustering
from framework.engine.delta.table_replacement import TableDefinition
from framework.engine.delta.table_version import DELTA, TableVersion, can_open, each
from framework.engine.jvm.java import java_class, scala_map
from framework.engine.sessions.execution import active_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.foundation.table_address import TableAddress

Check = Callable[[str], None]
"""A check of a table's columns, as JSON, in the transaction that replaces them: it raises if they must stay."""

_FEED = "delta.enablechangedatafeed"


def has_feed(properties: Mapping[str, str]) -> bool:
    """Return whether a table with these properties has a change data feed."""
    return any(name.lower() == _FEED and value.lower() == "true" for name, value in properties.items())


def replace_table(
    table: TableAddress, rows: DataFrame, definition: TableDefinition, *, check: Check, user_metadata: str
) -> bool:
    """Replace rows, columns and definition of a table in one commit, as `createOrReplace`.

    A table that has a change data feed, before and after, keeps its id, and its clustering columns if the new rows
    have them.

    Args:
        table: the table, which exists.
        rows: the new rows.
        definition: the new definition.
        check: called with the columns that are replaced; if it raises, nothing is written.
        user_metadata: recorded in the commit.

    Returns:
        Whether the rows are replaced. If not, nothing was written: the table is clustered and has no change data feed,
        or an untested version of Delta.

    Raises:
        pyspark.errors.PySparkException: an error of the query, or one of Delta's conflicts.
    """
    if not can_open(table):
        return False
    with active_session(rows.sparkSession):  # Delta reads settings from the thread's session
        version = TableVersion(rows.sparkSession, table)
        stored = version.snapshot.metadata()
        properties = stored.configuration()
        had_feed = has_feed({str(key): str(properties.apply(key)) for key in each(properties.keys())})
        is_fed = had_feed and has_feed(definition.properties)
        if not is_fed and any(clustering(version)):
            return False
        check(str(stored.schemaString()))
        columns = str(rows._jdf.schema().asNullable().json())
        table_id = version.table_id if is_fed else str(uuid4())
        commit_replacement(version, rows, definition, table_id=table_id, columns=columns, user_metadata=user_metadata)
    return True


def commit_replacement(
    version: TableVersion,
    rows: DataFrame,
    definition: TableDefinition,
    *,
    table_id: str,
    columns: str,
    user_metadata: str,
) -> None:
    """Commit new rows, columns and definition of a table as `createOrReplace` does, with a given table id.

    Args:
        version: the version of the table that is replaced.
        rows: the new rows.
        definition: the new definition.
        table_id: the id of the table after the commit.
        columns: all columns as JSON; Delta computes those of them that the rows lack.
        user_metadata: recorded in the commit.

    Raises:
        pyspark.errors.PySparkException: an error of the query, or one of Delta's conflicts.
    """
    transaction, stored = version.transaction, version.snapshot.metadata()
    some, none = java_class("scala.Option").apply, java_class("scala.Option").empty()
    partitions = version.sequence(*definition.partition_columns)
    metadata: Any = java_class(f"{DELTA}.actions.Metadata")(
        table_id,
        None,
        definition.comment or None,
        stored.format(),
        columns,
        partitions,
        scala_map(definition.properties),
        stored.createdTime() if table_id == version.table_id else some(version.now()),
    )
    transaction.updateMetadataForNewTableInReplace(metadata)
    kept = version.sequence(*clustering(version))
    written = version.write(rows, mode="Overwrite", options=ALL_PARTITIONS, partitions=partitions)
    managed, or_create, as_select = False, True, True
    operation = java_class(f"{DELTA}.DeltaOperations$ReplaceTable")(
        transaction.metadata(), managed, or_create, as_select, some(user_metadata), none, none, none, none, none, none
    )
    version.commit(written.prependedAll(kept), operation)
