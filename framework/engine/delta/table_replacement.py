"""Replaces all rows of a table whose definition stays the same, in one commit.

`createOrReplace` lists the files that it removes by queries over the log. Here the list is read from the checksum file
of the last commit, and the resulting commit is the same. Tables for which it may differ are left to `createOrReplace`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from framework.engine.delta.table_version import DELTA, TableVersion, can_open, each, has_plain_fields
from framework.engine.jvm.java import java_class, scala_map
from framework.engine.sessions.execution import active_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.foundation.table_address import TableAddress

_DELTA_PROPERTY = "delta."
# Properties that affect neither the removed files nor the schema. With any other property, Delta's command is used.
_INDEPENDENT = frozenset(
    {
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpointInterval",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableDeletionVectors",
        "delta.logRetentionDuration",
        "delta.parquet.compression.codec",
        "delta.targetFileSize",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """The definition that `createOrReplace` would give a table, besides the columns of its rows.

    Args:
        properties: the table's properties.
        comment: its comment; empty or None for none.
        partition_columns: its partition columns.
    """

    properties: Mapping[str, str]
    comment: str | None
    partition_columns: tuple[str, ...]


def replace_rows(table: TableAddress, rows: DataFrame, definition: TableDefinition, *, user_metadata: str) -> bool:
    """Replace all rows of a table as `createOrReplace` does, with a new table id and the same history entry.

    Args:
        table: the table, which exists.
        rows: the new rows.
        definition: the definition, which the table must already have.
        user_metadata: recorded in the commit.

    Returns:
        Whether the rows are replaced. If not, nothing was written: the table's columns, properties or features differ
        from the result of `createOrReplace`, its checksum file lists no files, or the version of Delta is untested.

    Raises:
        pyspark.errors.PySparkException: an error of the query, or one of Delta's conflicts.
    """
    if not can_open(table):
        return False
    with active_session(rows.sparkSession):  # Delta reads settings from the thread's session
        version = TableVersion(rows.sparkSession, table)
        files = version.listed_files()
        if files is None or not is_plain(version.snapshot) or not keeps_definition(version, rows, definition):
            return False
        _commit(version, rows, files, user_metadata)
    return True


def is_plain(snapshot: Any) -> bool:
    """Return whether a table has no feature that matters when files are replaced, such as computed columns.

    Args:
        snapshot: a version of the table whose checksum lists its files.
    """
    domains = snapshot.checksumOpt().get().domainMetadata()
    if not domains.isDefined() or not domains.get().isEmpty():
        return False
    metadata = snapshot.metadata()
    keys = {str(key) for key in each(metadata.configuration().keys()) if str(key).startswith(_DELTA_PROPERTY)}
    return keys <= _INDEPENDENT and has_plain_fields(json.loads(metadata.schemaString()))


def keeps_definition(version: TableVersion, rows: DataFrame, definition: TableDefinition) -> bool:
    """Redefine the table in the transaction, and return whether only its id and creation time change."""
    transaction, stored = version.transaction, version.snapshot.metadata()
    columns = rows._jdf.schema().asNullable().json()
    if columns != stored.schemaString():
        return False
    transaction.updateMetadataForNewTableInReplace(
        java_class(f"{DELTA}.actions.Metadata")(
            str(uuid4()),
            None,
            definition.comment or None,
            stored.format(),
            columns,
            version.sequence(*definition.partition_columns),
            scala_map(definition.properties),
            java_class("scala.Option").apply(version.now()),
        )
    )
    defined = transaction.metadata()
    unchanged = defined.copy(
        stored.id(),
        defined.name(),
        defined.description(),
        defined.format(),
        defined.schemaString(),
        defined.partitionColumns(),
        defined.configuration(),
        stored.createdTime(),
    )
    return bool(unchanged.equals(stored)) and bool(transaction.protocol().equals(version.snapshot.protocol()))


def _commit(version: TableVersion, rows: DataFrame, files: Any, user_metadata: str) -> None:
    transaction, some, none = version.transaction, java_class("scala.Option").apply, java_class("scala.Option").empty()
    transaction.readWholeTable()  # a concurrent commit of another writer is a conflict
    added, now = version.write_files(rows), version.now()
    removed = [file.removeWithTimestamp(now, True) for file in each(files)]  # noqa: FBT003 - a JVM call
    version.set_metrics({"numRemovedFiles": len(removed), "numRemovedBytes": version.listed_bytes()})
    managed, or_create, as_select = False, True, True
    operation = java_class(f"{DELTA}.DeltaOperations$ReplaceTable")(
        transaction.metadata(), managed, or_create, as_select, some(user_metadata), none, none, none, none, none, none
    )
    version.commit(version.sequence(*each(added), *removed), operation)
