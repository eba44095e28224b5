"""Delta tables with given rows, written without Spark: one file and one commit for each batch, in milliseconds.

The checksum of each commit lists all files, so that readers need no Spark job to find them. Only a sandbox writes these
tables, so no other commit can come in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql.types import StructField, StructType

from framework.sandbox.arrow_rows import arrow_table, is_plain_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTIES = {"delta.enableChangeDataFeed": "true"}
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 4}
_FEATURES_OF_TIMES = {
    "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["timestampNtz", "appendOnly", "invariants", "changeDataFeed"],
}  # fmt: skip
_LOG = "_delta_log"


class DeltaInput:
    """A Delta table that grows by batches.

    Args:
        folder: the folder of the table.

    Attributes:
        schema: its columns; None before the first batch.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schema: StructType | None = None
        self._files: list[dict[str, Any]] = []
        self._metadata: dict[str, Any] = {}
        self._version = -1
        self._is_of_spark = False

    def append(self, spark: SparkSession, schema: StructType, rows: Sequence[Sequence[Any]], seconds: float) -> None:
        """Append a batch in one commit; columns that the table lacks are added.

        Args:
            spark: writes types that Arrow writes otherwise.
            schema: the columns of the batch.
            rows: the rows, with a value for each column of `schema`.
            seconds: the time of the commit, in seconds since the epoch.
        """
        before = self.schema
        self.schema = schema if before is None else _merged(before, schema)
        if self._is_of_spark or not is_plain_arrow(schema):
            self._is_of_spark = True
            frame = spark.createDataFrame([tuple(row) for row in rows], schema).coalesce(1)
            frame.write.format("delta").mode("append").option("mergeSchema", "true").save(str(self.folder))
            return
        self._commit(schema, rows, round(seconds * 1000), has_new_columns=before != self.schema)

    def _commit(self, schema: StructType, rows: Sequence[Sequence[Any]], now: int, *, has_new_columns: bool) -> None:
        assert self.schema is not None
        (self.folder / _LOG).mkdir(parents=True, exist_ok=True)
        self._version += 1
        protocol = _FEATURES_OF_TIMES if "timestamp_ntz" in self.schema.json() else _PROTOCOL
        actions: list[dict[str, Any]] = []
        if has_new_columns:
            self._metadata = self._described(self.schema, now)
            actions += [{"protocol": protocol}, {"metaData": self._metadata}]
        if rows or self._version == 0:
            added = self._written(schema, rows, now)
            self._files.append(added)
            actions.append({"add": added})
        number = str(uuid4())
        commit = {
            "timestamp": now, "operation": "WRITE", "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable", "isBlindAppend": True, "txnId": number,
            "operationMetrics": {"numFiles": "1", "numOutputRows": str(len(rows))},
        }  # fmt: skip
        self._write(f"{self._version:020d}.crc", [self._checksum(number, protocol)])
        self._write(f"{self._version:020d}.json", [{"commitInfo": commit}, *actions])

    def _described(self, schema: StructType, now: int) -> dict[str, Any]:
        fields = [
            {"name": each.name, "type": each.dataType.jsonValue(), "nullable": True, "metadata": {}}
            for each in schema.fields
        ]
        return {
            "id": self._metadata.get("id", str(uuid4())), "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": [],
            "configuration": _PROPERTIES, "createdTime": self._metadata.get("createdTime", now),
        }  # fmt: skip

    def _written(self, schema: StructType, rows: Sequence[Sequence[Any]], now: int) -> dict[str, Any]:
        """Write a file, and return the action that adds it."""
        name = f"part-00000-{uuid4()}-c000.snappy.parquet"
        pq.write_table(arrow_table(_nullable(schema), rows), self.folder / name)
        return {
            "path": name, "partitionValues": {}, "size": (self.folder / name).stat().st_size, "modificationTime": now,
            "dataChange": True, "stats": json.dumps({"numRecords": len(rows)}),
        }  # fmt: skip

    def _checksum(self, number: str, protocol: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "txnId": number, "tableSizeBytes": sum(each["size"] for each in self._files), "numFiles": len(self._files),
            "numMetadata": 1, "numProtocol": 1, "setTransactions": [], "domainMetadata": [],
            "metadata": self._metadata, "protocol": protocol,
            "allFiles": [each | {"dataChange": False} for each in self._files],
        }  # fmt: skip

    def _write(self, name: str, lines: Sequence[Mapping[str, Any]]) -> None:
        hidden = self.folder / _LOG / f".{name}.tmp"
        hidden.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8")
        hidden.replace(self.folder / _LOG / name)


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(each.name, each.dataType) for each in schema.fields])


def _merged(known: StructType, more: StructType) -> StructType:
    """Return the columns of a table with the columns that it lacks."""
    names = {field.name.lower() for field in known.fields}
    added = [each for each in more.fields if each.name.lower() not in names]
    return known if not added else StructType([*known.fields, *added])
