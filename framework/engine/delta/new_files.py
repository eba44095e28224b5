"""Parquet files written outside of Spark that become files of a Delta table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from framework.engine.delta.table_version import DELTA, each, has_plain_metadata
from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from framework.engine.delta.table_version import TableVersion

# Properties that don't affect the content of a file. Any other property, such as a constraint or column mapping, may.
_HARMLESS = (
    "sluice.",
    "pipelines.",
    "delta.enableDeletionVectors",
    "delta.enableChangeDataFeed",
    "delta.appendOnly",
    "delta.checkpointInterval",
    "delta.logRetentionDuration",
    "delta.deletedFileRetentionDuration",
    "delta.autoOptimize.",
    "delta.enableInCommitTimestamps",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A Parquet file in the folder of a table that no commit names yet.

    Args:
        name: its name in the folder, which needs no encoding in a URI.
        rows: number of rows.
        bytes: its size.
        statistics: JSON as in Delta's log.
        is_stamped: whether its writer added the requested column.
        has_distinct_keys: whether no two of its rows have the same key; false if unknown.
    """

    name: str
    rows: int
    bytes: int
    statistics: str
    is_stamped: bool = False
    has_distinct_keys: bool = False


def added_file(version: TableVersion, file: NewFile) -> Any:
    """Return the action that adds a file to the table."""
    add = {
        "path": file.name,
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": version.now(),
        "dataChange": True,
        "stats": file.statistics,
    }
    return java_class(f"{DELTA}.actions.Action").fromJson(json.dumps({"add": add}))


def takes_files(version: TableVersion) -> bool:
    """Return whether a plain file with the table's columns is equivalent to a file that Delta would write."""
    metadata = version.snapshot.metadata()
    fields = StructType.fromJson(json.loads(metadata.schemaString())).fields
    properties = [str(entry._1()) for entry in each(metadata.configuration())]
    return (
        metadata.partitionColumns().isEmpty()
        and all(field.nullable and has_plain_metadata(field.metadata) for field in fields)
        and all(name.startswith(_HARMLESS) for name in properties)
    )
