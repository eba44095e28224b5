"""The rows of Delta tables without Spark, for tests that look at them.

A query of a table that has changed costs nearly half as much as the update of a flow: Delta first computes the list of
its files. What only Spark reads right, Spark reads: other types, deleted rows of a file, partitions, renamed columns
and columns whose type became wider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from framework.foundation.storage import LocalStorage
from framework.sources.delta.log import commit_files, read_commit

_LEAVES = (
    BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType, StringType
)  # fmt: skip
_FEATURES = {"deletionVectors", "timestampNtz"}
_NONE = "null"


def table_rows(spark: SparkSession, path: str, *, without: str | None = None) -> list[Row]:
    """The rows of a Delta table in any order.

    Args:
        spark: reads what is not plain.
        path: the folder of the table.
        without: leaves out the columns whose names begin so.
    """

    def choose(names: Sequence[str]) -> list[str]:
        return [name for name in names if without is None or not name.startswith(without)]

    rows = plain_rows(path, choose)
    if rows is None:
        frame = spark.read.format("delta").load(path)
        rows = frame.select(*("`" + name.replace("`", "``") + "`" for name in choose(frame.columns))).collect()
    return rows


def plain_rows(path: str, choose: Callable[[Sequence[str]], Sequence[str]]) -> list[Row] | None:
    """The rows of a table; None if it lacks a column, or has a feature, a type or a log that is not plain.

    Args:
        path: the folder of the table.
        choose: returns the wanted columns, of all columns.
    """
    actions = _actions(path)
    metadata: Mapping[str, Any] = next((each["metaData"] for each in reversed(actions) if "metaData" in each), {})
    protocols = [each["protocol"] for each in actions if "protocol" in each]
    if not metadata or metadata["partitionColumns"] or not {*protocols[-1].get("readerFeatures", ())} <= _FEATURES:
        return None
    if metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") != "none":
        return None
    fields = {field.name: field for field in StructType.fromJson(json.loads(metadata["schemaString"]))}
    files, names = _files(actions), choose([*fields])
    if files is None or not {*names} <= {*fields}:
        return None
    wanted = StructType([fields[name] for name in names])
    return [row for file in files for row in _read(Path(path, file), wanted)] if _is_plain(wanted) else None


def _read(file: Path, wanted: StructType) -> Iterator[Row]:
    """The rows of a file; a column or a field that it lacks is NULL."""
    table = pq.ParquetFile(file).read()
    present = {*table.column_names}
    columns = [
        [_value(value, field.dataType) for value in table.column(field.name).to_pylist()]
        if field.name in present
        else [None] * table.num_rows
        for field in wanted.fields
    ]
    return (_row(wanted, list(values)) for values in zip(*columns, strict=True))


def _actions(path: str) -> list[dict[str, Any]]:
    """All actions of a log from its begin on; [] if commits are missing."""
    storage = LocalStorage(path)
    commits = commit_files(storage, path)
    if [*commits] != [*range(len(commits))]:
        return []
    return [action for file in commits.values() for action in read_commit(storage, file)]


def _files(actions: list[dict[str, Any]]) -> list[str] | None:
    """The files of the table; None if one is elsewhere or has deleted rows.

    A commit that deletes rows of a file removes the file as it was, and adds it with other deleted rows.
    """
    files: dict[tuple[str, str], None] = {}
    for action in actions:
        if "add" in action:
            files[_key(action["add"])] = None
        elif "remove" in action:
            files.pop(_key(action["remove"]), None)
    if any(deleted != _NONE or ":" in path for path, deleted in files):
        return None
    return [unquote(path) for path, _ in files]


def _key(file: Mapping[str, Any]) -> tuple[str, str]:
    return file["path"], json.dumps(file.get("deletionVector"), sort_keys=True)


def _is_plain(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_plain(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, MapType):
        return _is_plain(kind.keyType) and _is_plain(kind.valueType)
    return type(kind) in _LEAVES


def _value(value: Any, kind: DataType) -> Any:
    """A value of a Parquet file as Spark returns it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return _row(kind, [_value(value.get(field.name), field.dataType) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return [_value(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {_value(key, kind.keyType): _value(each, kind.valueType) for key, each in value}
    return value


def _row(kind: StructType, values: list[Any]) -> Row:
    return Row(*kind.fieldNames())(*values)
