"""Rows of Delta tables on this machine without Spark, which needs half a second for a table that has just changed.

Tables with features, types or a log that are not plain are left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    Row,
    StringType,
    StructType,
    TimestampType,
)

from framework.engine.delta.data_files import vector_file
from framework.foundation.files.storage import Storage
from framework.sandbox.arrow_rows import is_plain_arrow
from framework.sandbox.stored.deletion_vectors import deleted_positions
from framework.sources.delta.log import commit_files, read_commit

_FEATURES = {"deletionVectors", "timestampNtz", "variantType"}
_PARTITIONS: Mapping[type[DataType], Callable[[str], object]] = {
    DateType: date.fromisoformat,
    IntegerType: int,
    LongType: int,
    StringType: str,
}
_Log = list[dict[str, Any]]
_Values = tuple[Any, ...]


def plain_table(
    storage: Storage, folder: str, *, without: Sequence[str] = ()
) -> tuple[StructType, tuple[_Values, ...]] | None:
    """Return the columns of a table and its rows, in the order in which the table got them; None if Spark must read it.

    Args:
        storage: reads the log.
        folder: the folder of the table.
        without: columns that are left out.

    Returns:
        The values as `framework.sandbox.values.typed_values.typed_value` returns them.
    """
    log = _log(storage, folder)
    metadata: Mapping[str, Any] = next((each["metaData"] for each in reversed(log) if "metaData" in each), {})
    if not _is_plain_table(log, metadata):
        return None
    stored = StructType.fromJson(json.loads(metadata["schemaString"]))
    schema = StructType([field for field in stored.fields if field.name not in without])
    partitions = {type(stored[name].dataType) for name in metadata["partitionColumns"]}
    if not is_plain_arrow(schema) or not partitions <= {*_PARTITIONS}:
        return None
    files = _files(log)
    if any(
        ":" in file["path"] or (file.get("deletionVector") or {"storageType": "u"})["storageType"] != "u"
        for file in files
    ):
        return None
    try:
        return schema, tuple(row for file in files for row in _rows(Path(folder), file, schema))
    except (ValueError, OverflowError):  # text that is not UTF-8, points in time that Python does not have
        return None


def _log(storage: Storage, folder: str) -> _Log:
    """Return all actions of a log from its begin on; [] if commits are missing."""
    commits = commit_files(storage, folder)
    if [*commits] != [*range(len(commits))]:
        return []
    return [action for file in commits.values() for action in read_commit(storage, file)]


def _is_plain_table(log: _Log, metadata: Mapping[str, Any]) -> bool:
    protocol = next((each["protocol"] for each in reversed(log) if "protocol" in each), None)
    if protocol is None or not metadata or not {*protocol.get("readerFeatures", ())} <= _FEATURES:
        return False
    return bool(metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") == "none")


def _files(log: _Log) -> list[dict[str, Any]]:
    """Return the current files; a commit that deletes rows of a file replaces it by itself with a deletion vector."""
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for action in log:
        for kind in ("add", "remove"):
            if kind in action:
                key = action[kind]["path"], json.dumps(action[kind].get("deletionVector"), sort_keys=True)
                files.pop(key, None)
                files |= {key: action[kind]} if kind == "add" else {}
    return list(files.values())


def _rows(folder: Path, file: Mapping[str, Any], schema: StructType) -> Iterator[_Values]:
    """Return the rows of a file that are not deleted; a column or field that the file lacks is NULL."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(folder / unquote(file["path"]), coerce_int96_timestamp_unit="us") as parquet:
        table = parquet.read()
    deleted = _deleted(folder, file.get("deletionVector"))
    columns = []
    for field in schema.fields:
        if field.name in table.column_names:
            columns.append([_value(each, field.dataType) for each in table.column(field.name).to_pylist()])
        else:
            text = file["partitionValues"].get(field.name)
            columns.append([_PARTITIONS[type(field.dataType)](text) if text else None] * table.num_rows)
    rows = zip(*columns, strict=True) if columns else iter([()] * table.num_rows)
    return (row for place, row in enumerate(rows) if place not in deleted)


def _deleted(folder: Path, vector: Mapping[str, Any] | None) -> frozenset[int]:
    """Return the positions of the deleted rows of a file."""
    name = None if vector is None else vector_file(f"u{vector['pathOrInlineDv']}")
    if vector is None or name is None:
        return frozenset()
    with (folder / name).open("rb") as file:
        file.seek(vector["offset"])
        data = file.read(int.from_bytes(file.read(4), "big"))
    found = deleted_positions(data)
    assert len(found) == vector["cardinality"]
    return found


def _value(value: Any, kind: DataType) -> Any:
    """Return a value of Arrow as `typed_value` returns it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return Row(*kind.fieldNames())(*(_value(value.get(field.name), field.dataType) for field in kind.fields))
    if isinstance(kind, TimestampType):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(kind, ArrayType):
        return [_value(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {_value(key, kind.keyType): _value(each, kind.valueType) for key, each in dict(value).items()}
    return value
