"""Restores of a table to a version: their effect, computed from Delta's log, and their commit.

`RESTORE` compares the files of two versions by some ten jobs. Here the file lists in the commits' checksum files are
compared, and the resulting commit is the same. Tables for which it may differ are left to `RESTORE`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from delta import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.engine.delta.data_files import file_name, missing_files
from framework.engine.delta.restored_rows import RestoredRows
from framework.engine.delta.table_replacement import is_plain
from framework.engine.delta.table_version import (
    DELTA,
    LoggedFile,
    TableVersion,
    can_open,
    each,
    listed_files,
    log_entries,
)
from framework.engine.jvm.java import java_class
from framework.engine.jvm.java_errors import Py4JJavaError
from framework.engine.sessions.execution import active_session
from framework.foundation.files.storage_port import Storage
from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def restored_rows(spark: SparkSession, storage: Storage, path: str, version: int | None) -> RestoredRows | None:
    """Return the effect of a restore of a table; None if its log no longer has the version.

    Args:
        spark: the session; jobs read the log of a table with more files than its checksum lists.
        storage: checks that files exist.
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
    return RestoredRows(before=now.rows(), after=then.rows(), missing=missing_files(storage, path, again))


def restore(session: SparkSession, storage: Storage, path: str, version: int) -> None:
    """Restore a table to a version in one commit, as `RESTORE` does.

    Args:
        session: the session whose settings Delta reads, such as the metadata of the commit.
        storage: looks for files.
        path: the table's folder.
        version: the version, before the newest one.

    Raises:
        pyspark.errors.PySparkException: an error of Delta: a missing file, or a conflict.
    """
    if not _restore_listed(session, storage, path, version):
        DeltaTable.forPath(session, path).restoreToVersion(version)


def _restore_listed(session: SparkSession, storage: Storage, path: str, version: int) -> bool:
    """Restore a table whose files are listed; return whether it was restored. If not, nothing was written."""
    address = TableAddress(path=path)
    if not can_open(address):
        return False
    with active_session(session):  # Delta reads settings from the thread's session
        present = TableVersion(session, address)
        if version >= present.snapshot.version():
            return False
        none = java_class("scala.Option").empty()
        earlier = present.log.getSnapshotAt(version, none, none, True)  # noqa: FBT003 - a JVM call
        if not _can_restore(present.snapshot, earlier):
            return False
        now, then = _by_name(listed_files(present.snapshot)), _by_name(listed_files(earlier))
        added = [entry for name, (entry, _) in then.items() if name not in now]
        removed = [file for name, (_, file) in now.items() if name not in then]
        if missing_files(storage, path, then.keys() - now.keys()):
            return False  # Delta has the error for it
        _commit(present, earlier, added, removed)
    return True


def _can_restore(present: Any, earlier: Any) -> bool:
    """Return whether both versions list their files, and differ at most in files and definition."""
    if listed_files(present) is None or listed_files(earlier) is None:
        return False
    # A setting makes Delta refuse transactions that change the partition columns; its RESTORE commits differently.
    partitions = present.metadata().partitionColumns(), earlier.metadata().partitionColumns()
    is_same = bool(present.protocol().equals(earlier.protocol())) and bool(partitions[0].equals(partitions[1]))
    return is_same and is_plain(present) and is_plain(earlier)


def _by_name(files: Any) -> dict[tuple[str, str], tuple[dict[str, Any], Any]]:
    """Return the log entry and the `AddFile` of each listed file, by path and vector."""
    return {file_name(entry): (entry, file) for entry, file in zip(log_entries(files), each(files), strict=True)}


def _commit(present: TableVersion, earlier: Any, added: list[dict[str, Any]], removed: list[Any]) -> None:
    transaction, some, none = present.transaction, java_class("scala.Option").apply, java_class("scala.Option").empty()
    transaction.readWholeTable()  # a concurrent commit of another writer is a conflict
    transaction.updateMetadata(earlier.metadata(), False)  # noqa: FBT003 - a JVM call
    parse, now, checksum = java_class(f"{DELTA}.actions.Action").fromJson, present.now(), earlier.checksumOpt().get()
    actions = [parse(json.dumps({"add": {**entry, "dataChange": True}})) for entry in added]
    actions += [file.removeWithTimestamp(now, True) for file in removed]  # noqa: FBT003 - a JVM call
    present.set_metrics(
        {
            "numRestoredFiles": len(added),
            "restoredFilesSize": sum(int(entry["size"]) for entry in added),
            "numRemovedFiles": len(removed),
            "removedFilesSize": sum(int(file.size()) for file in removed),
            "numOfFilesAfterRestore": int(checksum.numFiles()),
            "tableSizeAfterRestore": int(checksum.tableSizeBytes()),
        }
    )
    operation = java_class(f"{DELTA}.DeltaOperations$Restore")(some(earlier.version()), none)
    present.commit(present.sequence(*actions), operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of a version.

    Args:
        frame: path, deletion vector and number of rows of each; a query over the log.
        listed: the same from the checksum file, by path and vector; None if it has no list of files.
    """

    frame: Callable[[], DataFrame]
    listed: Mapping[tuple[str, str], int | None] | None

    @classmethod
    def of(cls, spark: SparkSession, snapshot: Any) -> Self:
        files = listed_files(snapshot)
        listed = None if files is None else {file_name(entry): _stored_rows(entry) for entry in log_entries(files)}
        return cls(frame=lambda: _frame(spark, snapshot), listed=listed)

    def without(self, others: _Files) -> Collection[tuple[str, str]]:
        """Return path and vector of the files that the other version lacks."""
        if self.listed is not None and others.listed is not None:
            return self.listed.keys() - others.listed.keys()
        key = ["path", "vector"]
        return [(row["path"], row["vector"]) for row in self.frame().join(others.frame(), key, "left_anti").collect()]

    def rows(self) -> int | None:
        """Return the total number of rows; None if it is unknown for a file."""
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


def _stored_rows(entry: Mapping[str, Any]) -> int | None:
    return LoggedFile.read(entry, names_match=False).rows
