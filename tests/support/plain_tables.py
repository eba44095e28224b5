"""The rows of Delta tables without Spark jobs, for tests that look at them or append to them.

A query of a table that has changed costs nearly half as much as the update of a flow: Delta first computes the list of
its files. What only Spark reads right, Spark reads: other types, partitions by other types than `_PARTITIONS`, renamed
columns and columns whose type became wider.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from delta.tables import DeltaTable
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

from framework.engine.delta.data_files import vector_file
from framework.engine.delta.new_files import NewFile, added_file, takes_files
from framework.engine.delta.table_version import TableVersion
from framework.engine.sessions.execution import active_session
from framework.foundation.files.storage import LocalStorage
from framework.foundation.table_address import TableAddress
from framework.sources.delta.log import commit_files, read_commit

_LEAVES = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    StringType, TimestampNTZType, TimestampType,
)  # fmt: skip
_SAME_IN_ARROW = (BooleanType, ByteType, DoubleType, IntegerType, LongType, ShortType, StringType, TimestampType)
_PARTITIONS: Mapping[type[DataType], Callable[[str], Any]] = {
    DateType: date.fromisoformat, IntegerType: int, LongType: int, StringType: str,
}  # fmt: skip
"""The types of columns that a table may be partitioned by, and how a value is read from its text."""

_FEATURES = {"deletionVectors", "timestampNtz", "variantType"}
_BITMAP_MAGIC = 1681511377  # of the format of Delta's protocol
_first_commits: dict[tuple[object, ...], dict[str, str]] = {}
"""The first commits of tables and their checksums, by the definition of the table."""

_known = set[str]()
"""Folders of tables that got rows. Delta remembers a table that it has read: Spark writes the next one there."""

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


def stored_schema(path: str) -> StructType:
    """The columns of a table in its newest version, whose log has all of its commits."""
    (*_, metadata) = (each["metaData"] for each in _actions(path) if "metaData" in each)
    return StructType.fromJson(json.loads(metadata["schemaString"]))


def append_rows(spark: SparkSession, path: str, rows: Sequence[Sequence[Any]], ddl: str) -> None:
    """Append rows to a Delta table, which gets new columns, in one commit with one file."""
    table = _arrow_table(rows, ddl)
    is_known = path in _known
    _known.add(path)
    if table is not None and not is_known and not Path(path).exists():
        _create_table(Path(path), table, ddl)
        return
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
    if any(isinstance(value, datetime) and value.tzinfo is None for row in rows for value in row):
        return None  # Spark takes it for the local time of the process, Arrow for that of UTC
    columns = zip(*rows, strict=True)
    kinds = to_arrow_schema(schema, timezone="UTC")
    return pa.table([pa.array([*values], kind) for values, kind in zip(columns, kinds.types, strict=True)], kinds)


def create_empty_table(
    spark: SparkSession, path: str, schema: StructType, properties: Mapping[str, str], partitions: Sequence[str] = ()
) -> None:
    """Create a table: by Delta, or with the first commit of an earlier table of the same definition."""
    definition = (schema.json(), *sorted(properties.items()), *partitions)
    log = Path(path, "_delta_log")
    if definition not in _first_commits:
        builder = DeltaTable.create(spark).location(path).addColumns(schema)
        for key, value in properties.items():
            builder = builder.property(key, value)
        builder.partitionedBy(*partitions).execute()
        _first_commits[definition] = {file.name: file.read_text("utf-8") for file in log.glob("[0-9]*")}
        return
    log.mkdir(parents=True)
    files = _first_commits[definition]
    (commit,) = (text for name, text in files.items() if name.endswith(".json"))
    (known,) = (json.loads(line)["metaData"]["id"] for line in commit.splitlines() if '"metaData"' in line)
    number = str(uuid4())
    for name, text in files.items():
        (log / name).write_text(text.replace(known, number), "utf-8")


def _create_table(folder: Path, table: pa.Table, ddl: str) -> None:
    """Write the first commit and its checksum as Delta does; the statistics have the number of rows only."""
    log, now, number = folder / "_delta_log", time.time_ns() // 1_000_000, str(uuid4())
    log.mkdir(parents=True)
    name, size, statistics = _write_file(folder, table)
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    fields = [
        {"name": field.name, "type": field.dataType.jsonValue(), "nullable": True, "metadata": {}}
        for field in schema.fields
    ]
    metadata = {
        "id": str(uuid4()), "format": {"provider": "parquet", "options": {}},
        "schemaString": _compact({"type": "struct", "fields": fields}), "partitionColumns": [], "configuration": {},
        "createdTime": now,
    }  # fmt: skip
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    added = {
        "path": name, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True,
        "stats": statistics,
    }  # fmt: skip
    commit = {
        "timestamp": now, "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]", "canMergeSchema": True},
        "isolationLevel": "Serializable", "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": str(table.num_rows), "numOutputBytes": str(size)},
        "txnId": number,
    }  # fmt: skip
    checksum = {
        "txnId": number, "tableSizeBytes": size, "numFiles": 1, "numMetadata": 1, "numProtocol": 1,
        "setTransactions": [], "domainMetadata": [], "metadata": metadata, "protocol": protocol,
        "allFiles": [added | {"dataChange": False}],
    }  # fmt: skip
    (log / f"{0:020d}.crc").write_text(_compact(checksum), "utf-8")
    actions = ({"commitInfo": commit}, {"metaData": metadata}, {"protocol": protocol}, {"add": added})
    (log / f"{0:020d}.json").write_text("".join(f"{_compact(action)}\n" for action in actions), "utf-8")


def write_parquet(folder: Path, rows: Sequence[Sequence[Any]], ddl: str) -> None:
    """Write a Parquet file with rows into a folder; no value is a struct or a point in time."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    kinds = to_arrow_schema(schema)
    columns = [pa.array([*values], kind) for values, kind in zip(zip(*rows, strict=True), kinds.types, strict=True)]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, kinds), folder / f"{uuid4()}.parquet")


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _write_file(folder: Path, table: pa.Table) -> tuple[str, int, str]:
    """Write a file; its name, its size and its statistics."""
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    pq.write_table(table, folder / name)
    return name, (folder / name).stat().st_size, _compact({"numRecords": table.num_rows})


def _append_file(version: TableVersion, folder: Path, table: pa.Table) -> None:
    name, size, statistics = _write_file(folder, table)
    added = added_file(version, NewFile(name=name, rows=table.num_rows, bytes=size, statistics=statistics))
    version.commit_append(added)


def delete_old_files(path: str) -> None:
    """Delete the files of a table that its current version does not have, as VACUUM does."""
    files = _files(_actions(path))
    assert files is not None
    vectors = {_vector_file(json.loads(vector)) for vector in files.values()}
    for file in [*Path(path).rglob("*.parquet"), *Path(path).rglob("*.bin")]:
        name = str(file.relative_to(path))
        if not name.startswith("_delta_log/") and name not in {*files, *vectors}:
            file.unlink()


def plain_rows(path: str, choose: Callable[[Sequence[str]], Sequence[str]]) -> list[Row] | None:
    """The rows of a table; None if it lacks a column, or has a feature, a type or a log that is not plain.

    Args:
        path: the folder of the table.
        choose: returns the wanted columns, of all columns.
    """
    actions = _actions(path)
    metadata: Mapping[str, Any] = next((each["metaData"] for each in reversed(actions) if "metaData" in each), {})
    protocols = [each["protocol"] for each in actions if "protocol" in each]
    if not metadata or not {*protocols[-1].get("readerFeatures", ())} <= _FEATURES:
        return None
    if metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") != "none":
        return None
    fields = {field.name: field for field in StructType.fromJson(json.loads(metadata["schemaString"]))}
    files, names = _files(actions), choose([*fields])
    if files is None or not {*names} <= {*fields}:
        return None
    wanted = StructType([fields[name] for name in names])
    kinds = {type(fields[name].dataType) for name in metadata["partitionColumns"]}
    if not _is_plain(wanted) or not kinds <= {*_PARTITIONS}:
        return None
    parts = {unquote(each["add"]["path"]): each["add"]["partitionValues"] for each in actions if "add" in each}
    return [row for file, vector in files.items() for row in _read(Path(path), file, vector, wanted, parts[file])]


def _read(folder: Path, file: str, vector: str, wanted: StructType, parts: Mapping[str, str | None]) -> Iterator[Row]:
    """The rows of a file that are not deleted; a column or a field that it lacks is NULL.

    Args:
        folder: of the table.
        file: its path in the folder.
        vector: its deletion vector as JSON.
        wanted: the columns.
        parts: the texts of the columns that the table is partitioned by.
    """
    table = pq.ParquetFile(folder / file, coerce_int96_timestamp_unit="us").read()
    if deleted := _deleted(folder, json.loads(vector)):
        table = table.take([place for place in range(table.num_rows) if place not in deleted])
    present, row = {*table.column_names}, Row(*wanted.fieldNames())
    columns = [
        _values(table.column(field.name).to_pylist(), field.dataType)
        if field.name in present
        else [_part(parts.get(field.name), field.dataType)] * table.num_rows
        for field in wanted.fields
    ]
    return (row(*values) for values in zip(*columns, strict=True))


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
        with Path(folder, str(_vector_file(vector))).open("rb") as file:
            file.seek(vector["offset"])
            data = file.read(int.from_bytes(file.read(4), "big"))
    assert int.from_bytes(data[:4], "little") == _BITMAP_MAGIC
    deleted = BitMap64.deserialize(data[4:])
    assert len(deleted) == vector["cardinality"]
    return deleted


def _vector_file(vector: dict[str, Any] | None) -> str | None:
    """The file of a deletion vector; None if it is in the log."""
    if vector is None or vector["storageType"] == "i":
        return None
    assert vector["storageType"] == "u", "a path relative to the table"
    return vector_file(f"u{vector['pathOrInlineDv']}")


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


def _part(text: str | None, kind: DataType) -> Any:
    """The value of a column that a file lacks: of a partition, or NULL."""
    return _PARTITIONS[type(kind)](text) if text else None


def _values(values: list[Any], kind: DataType) -> list[Any]:
    """The values of a column as Spark returns them."""
    if isinstance(kind, StructType | ArrayType | MapType | TimestampType):
        return [_value(value, kind) for value in values]
    return values


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
