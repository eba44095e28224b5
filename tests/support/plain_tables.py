"""The rows of Delta tables without Spark jobs, for tests that look at them or append to them.

A query of a table that has changed costs nearly half as much as the update of a flow: Delta first computes the list of
its files. What only Spark reads right, Spark reads: other types, partitions, renamed columns and columns whose type
became wider.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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
    TimestampNTZType,
    TimestampType,
)

from framework.cdc.delta.new_files import NewFile, added_file, takes_files
from framework.cdc.delta.table_version import TableVersion
from framework.cdc.spark.execution import active_session
from framework.foundation.storage import LocalStorage
from framework.foundation.table_address import TableAddress
from framework.sources.delta.log import commit_files, read_commit

_LEAVES = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    StringType, TimestampNTZType, TimestampType,
)  # fmt: skip
_SAME_IN_ARROW = (BooleanType, ByteType, DoubleType, IntegerType, LongType, ShortType, StringType)
_FEATURES = {"deletionVectors", "timestampNtz"}
_BITMAP_MAGIC = 1681511377  # of the format of Delta's protocol
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


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


def append_rows(spark: SparkSession, path: str, rows: Sequence[Sequence[Any]], ddl: str) -> None:
    """Append rows to a Delta table, which gets new columns, in one commit with one file."""
    table = _arrow_table(rows, ddl)
    if table is not None and Path(path, "_delta_log").exists():
        with active_session(spark):
            version = TableVersion(spark, TableAddress(path=path))
            stored = StructType.fromJson(json.loads(version.snapshot.metadata().schemaString()))
            if stored == StructType.fromDDL(ddl) and takes_files(version):
                _append_file(version, Path(path), table)
                return
    frame = spark.createDataFrame([tuple(row) for row in rows], ddl).coalesce(1)
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def _arrow_table(rows: Sequence[Sequence[Any]], ddl: str) -> pa.Table | None:
    """The rows in Arrow; None if there are none, or a value is not the same in Python, Arrow and Spark."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    if not rows or not all(type(field.dataType) in _SAME_IN_ARROW for field in schema):
        return None
    columns = zip(*rows, strict=True)
    kinds = to_arrow_schema(schema)
    return pa.table([pa.array([*values], kind) for values, kind in zip(columns, kinds.types, strict=True)], kinds)


def _append_file(version: TableVersion, folder: Path, table: pa.Table) -> None:
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    pq.write_table(table, folder / name)
    size, statistics = (folder / name).stat().st_size, json.dumps({"numRecords": table.num_rows})
    added = added_file(version, NewFile(name=name, rows=table.num_rows, bytes=size, statistics=statistics))
    version.commit_append(added)


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
    if not _is_plain(wanted):
        return None
    return [row for file, vector in files.items() for row in _read(Path(path), file, vector, wanted)]


def _read(folder: Path, file: str, vector: str, wanted: StructType) -> Iterator[Row]:
    """The rows of a file that are not deleted; a column or a field that it lacks is NULL."""
    table = pq.ParquetFile(folder / file, coerce_int96_timestamp_unit="us").read()
    if deleted := _deleted(folder, json.loads(vector)):
        table = table.take([place for place in range(table.num_rows) if place not in deleted])
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


def _deleted(folder: Path, vector: dict[str, Any] | None) -> BitMap64:
    """The places of the deleted rows of a file, from its deletion vector."""
    if vector is None:
        return BitMap64()
    stored = vector["pathOrInlineDv"]
    if vector["storageType"] == "i":
        data = _decoded(stored)
    else:
        assert vector["storageType"] == "u", "a path relative to the table"
        prefix, name = stored[:-20], UUID(bytes=_decoded(stored[-20:]))
        with Path(folder, prefix, f"deletion_vector_{name}.bin").open("rb") as file:
            file.seek(vector["offset"])
            data = file.read(int.from_bytes(file.read(4), "big"))
    assert int.from_bytes(data[:4], "little") == _BITMAP_MAGIC
    deleted = BitMap64.deserialize(data[4:])
    assert len(deleted) == vector["cardinality"]
    return deleted


def _decoded(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(bytes.maketrans(_Z85, _B85)))


def _files(actions: list[dict[str, Any]]) -> dict[str, str] | None:
    """The files of the table, each with its deletion vector as JSON; None if one is elsewhere.

    A commit that deletes rows of a file removes the file as it was, and adds it with other deleted rows.
    """
    files: dict[tuple[str, str], None] = {}
    for action in actions:
        if "add" in action:
            files[_key(action["add"])] = None
        elif "remove" in action:
            files.pop(_key(action["remove"]), None)
    if any(":" in path for path, _ in files):
        return None
    return {unquote(path): vector for path, vector in files}


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
    if isinstance(kind, TimestampType):  # PySpark returns the local time of the process
        moment: datetime = value
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
    if isinstance(kind, ArrayType):
        return [_value(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {_value(key, kind.keyType): _value(each, kind.valueType) for key, each in value}
    return value


def _row(kind: StructType, values: list[Any]) -> Row:
    return Row(*kind.fieldNames())(*values)
