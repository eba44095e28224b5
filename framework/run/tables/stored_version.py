"""What a restore of a table to a version brings back, from Delta's log: rows, and files that must still be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.cdc.delta.table_version import DELTA
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
        spark: the session; two jobs read the log.
        storage: looks for files.
        path: the table's folder.
        version: the version; None for no rows.
    """
    log: Any = java_class(f"{DELTA}.DeltaLog").forTable(spark._jsparkSession, path)
    none = java_class("scala.Option").empty()
    now = _files(spark, log.update(False, none, none))  # noqa: FBT003 - a JVM call
    if version is None:
        return RestoredRows(before=_rows(now), after=0)
    try:
        then = _files(spark, log.getSnapshotAt(version, none, none, True))  # noqa: FBT003 - a JVM call
        again = then.join(now.select("path", "vector"), ["path", "vector"], "left_anti").collect()
    except (Py4JJavaError, PySparkException):
        return None
    files = {file for row in again for file in _paths(path, row["path"], row["vector"])}
    missing = tuple(sorted(file for file in files if not storage.exists(file)))
    return RestoredRows(before=_rows(now), after=_rows(then), missing=missing)


def _files(spark: SparkSession, snapshot: Any) -> DataFrame:
    """Return path, deletion vector and number of rows of each file of a version."""
    files = DataFrame(snapshot.allFiles().toDF(), spark)
    vector = F.concat(F.col("deletionVector.storageType"), F.col("deletionVector.pathOrInlineDv"))
    stored = F.get_json_object("stats", "$.numRecords").cast("bigint")
    rows = stored - F.coalesce(F.col("deletionVector.cardinality"), F.lit(0))
    return files.select("path", F.coalesce(vector, F.lit("")).alias("vector"), rows.alias("rows"))


def _rows(files: DataFrame) -> int | None:
    row = files.agg(F.sum("rows").alias("rows"), F.count_if(F.col("rows").isNull()).alias("unknown")).first()
    assert row is not None  # an aggregate without groups has one row
    return None if row["unknown"] else int(row["rows"] or 0)


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
