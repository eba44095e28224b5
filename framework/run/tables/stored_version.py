"""What a restore of a table to a version brings back, from Delta's log: rows, and files that must still be there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote
from uuid import UUID

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.cdc.delta.table_version import DELTA, LoggedFile, listed_files, log_entries
from framework.foundation.jvm_cache import java_class
from framework.foundation.storage_port import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ENCODED_UUID = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRows:
    """The effect of a restore.

    Args:
        before: the number of rows now; None if the log does not have it.
        after: the number of rows of the version; None if the log does not have it.
        missing: files of the version that are not there any more.
    """

    before: int | None
    after: int | None
    missing: tuple[str, ...] = ()


def restored_rows(spark: SparkSession, storage: Storage, path: str, version: int | None) -> RestoredRows | None:
    """Return the effect of a restore of a table; None if its log no longer has the version.

    Args:
        spark: the session; jobs read the log of a table with more files than its checksum lists.
        storage: looks for files.
        path: the table's folder.
        version: the version; None for no rows.
    """
    log: Any = java_class(f"{DELTA}.DeltaLog").forTable(spark._jsparkSession, path)
    none = java_class("scala.Option").empty()
    now = _Files.of(spark, log.update(False, none, none))  # noqa: FBT003 - a JVM call
    if version is None:
        return RestoredRows(before=now.rows(), after=0)
    try:
        then = _Files.of(spark, log.getSnapshotAt(version, none, none, True))  # noqa: FBT003 - a JVM call
        again = then.without(now)
    except (Py4JJavaError, PySparkException):
        return None
    files = {file for name, vector in again for file in _paths(path, name, vector)}
    missing = tuple(sorted(file for file in files if not storage.exists(file)))
    return RestoredRows(before=now.rows(), after=then.rows(), missing=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of a version.

    Args:
        frame: path, deletion vector and number of rows of each; a query over the log.
        listed: the same from the checksum, by path and vector; None if it has no list of them.
    """

    frame: Callable[[], DataFrame]
    listed: Mapping[tuple[str, str], int | None] | None

    @classmethod
    def of(cls, spark: SparkSession, snapshot: Any) -> Self:
        files = listed_files(snapshot)
        listed = None if files is None else {_name(entry): _stored_rows(entry) for entry in log_entries(files)}
        return cls(frame=lambda: _frame(spark, snapshot), listed=listed)

    def without(self, others: _Files) -> Collection[tuple[str, str]]:
        """Return path and vector of the files that the other version does not have."""
        if self.listed is not None and others.listed is not None:
            return self.listed.keys() - others.listed.keys()
        key = ["path", "vector"]
        return [(row["path"], row["vector"]) for row in self.frame().join(others.frame(), key, "left_anti").collect()]

    def rows(self) -> int | None:
        """Return the number of all rows; None if a file has no number of rows."""
        if self.listed is not None:
            counts = [count for count in self.listed.values() if count is not None]
            return sum(counts) if len(counts) == len(self.listed) else None
        row = self.frame().agg(F.sum("rows").alias("rows"), F.count_if(F.col("rows").isNull()).alias("unknown")).first()
        assert row is not None  # an aggregate without groups has one row
        return None if row["unknown"] else int(row["rows"] or 0)


def _frame(spark: SparkSession, snapshot: Any) -> DataFrame:
    files = DataFrame(snapshot.allFiles().toDF(), spark)
    vector = F.concat(F.col("deletionVector.storageType"), F.col("deletionVector.pathOrInlineDv"))
    stored = F.get_json_object("stats", "$.numRecords").cast("bigint")
    rows = stored - F.coalesce(F.col("deletionVector.cardinality"), F.lit(0))
    return files.select("path", F.coalesce(vector, F.lit("")).alias("vector"), rows.alias("rows"))


def _name(entry: Mapping[str, Any]) -> tuple[str, str]:
    vector = entry.get("deletionVector")
    return entry["path"], "" if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}"


def _stored_rows(entry: Mapping[str, Any]) -> int | None:
    return LoggedFile.read(entry, names_match=False).rows


def _paths(table: str, file: str, vector: str) -> list[str]:
    """Return the absolute paths of a file and of its deletion vector."""
    return [_absolute(table, unquote(file)), *([_absolute(table, name)] if (name := vector_file(vector)) else [])]


def _absolute(table: str, path: str) -> str:
    return path if path.startswith("/") or ":/" in path else f"{table}/{path}"


def vector_file(vector: str) -> str | None:
    """Return the file of a deletion vector, relative to the table or absolute; None if it is in the log.

    Args:
        vector: the type of its storage, one letter, and its place in Delta's encoding.

    Examples:
        >>> vector_file("uab^-aqEH.-t@S}K{vb[*k^")
        'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    kind, place = vector[:1], vector[1:]
    if kind == "p":
        return unquote(place)
    if kind != "u":
        return None
    folder, encoded = place[:-_ENCODED_UUID], place[-_ENCODED_UUID:]
    name = f"deletion_vector_{UUID(bytes=_decode(encoded))}.bin"
    return f"{folder}/{name}" if folder else name


def _decode(text: str) -> bytes:
    """Decode base 85 in the alphabet of ZeroMQ: each five characters are four bytes."""
    found = b""
    for place in range(0, len(text), 5):
        value = 0
        for character in text[place : place + 5]:
            value = value * 85 + _Z85.index(character)
        found += value.to_bytes(4, "big")
    return found
