"""One version of a Delta table, read without Spark jobs that list its files.

While a table has few files, Delta stores their list in the checksum file of the last commit. Reading this list takes
milliseconds. Delta's own method takes several Spark jobs per version of the table, and each batch of a flow creates a
version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from framework.engine.delta.data_files import file_name, missing_files
from framework.engine.files.storage import open_storage
from framework.engine.jvm.java import java_class, scala_map
from framework.engine.jvm.java_errors import Py4JJavaError
from framework.engine.registry.private_part import TESTED, Product
from framework.engine.registry.versions import delta_version
from framework.engine.sessions.execution import active_session
from framework.foundation.conditions.run import FILES_GONE
from framework.foundation.errors import OperationError
from framework.foundation.table_address import TableAddress

DELTA = "org.apache.spark.sql.delta"

_TESTED = TESTED[Product.DELTA]
_MAPPING = "delta.columnMapping.mode"
_ROWS = "numRecords"
_COMMENT, _OURS = "comment", "sluice."
_MOST_UNSKIPPED_BYTES = 64 << 20
_MOST_BYTES_OF_ONE_TASK = 1 << 20
_PLAIN_PATH = re.compile(r"[\w=-][\w=.-]*(/[\w=-][\w=.-]*)*", re.ASCII)
"""Matches a relative path that is the same in the log, as a path and as a URI."""


def can_open(table: TableAddress) -> bool:
    """Return whether a table can be opened this way: it has a path, and its Delta version was tested.

    Delta's internals are not a public interface, and a catalog may define commits differently from the table's log.
    """
    return table.path is not None and delta_version() in _TESTED


class TableVersion:
    """The newest version of a table.

    Args:
        session: the session whose settings readers use.
        table: the table, which exists at its path (`can_open`).

    Raises:
        OperationError: TABLE_REPLACED, if a different table is at the address.
    """

    def __init__(self, session: SparkSession, table: TableAddress) -> None:
        self.session = session
        self.table = table
        self.log = java_class(f"{DELTA}.DeltaLog").forTable(session._jsparkSession, table.path)
        self.transaction = self.log.startTransaction()
        self.snapshot = self.transaction.snapshot()
        if self.snapshot.version() >= 0 and table.table_id not in {None, self.table_id}:
            raise OperationError("TABLE_REPLACED", path=table.path)

    @property
    def table_id(self) -> str:
        """Delta's id of the table."""
        return str(self.snapshot.metadata().id())

    @property
    def columns(self) -> StructType:
        """The columns of the table."""
        return StructType.fromJson(json.loads(self.snapshot.metadata().schemaString()))

    @property
    def folder(self) -> str:
        """The folder of the table."""
        return str(self.log.dataPath().toString())

    def file_paths(self, *, removed: bool, prefix: str) -> set[str]:
        """Query the paths with a prefix, of the table's present files or of its removed files."""
        files = self.snapshot.tombstones() if removed else self.snapshot.allFiles()
        paths = DataFrame(files.toDF(), self.session).select("path")
        return {row.path for row in paths.where(paths.path.startswith(prefix)).collect()}

    def set_metrics(self, counts: Mapping[str, int]) -> None:
        """Set the metrics of the operation that `transaction` commits, for the history of the table."""
        context = self.session.sparkContext._jsc.sc()
        metrics = {}
        for name, count in counts.items():
            metrics[name] = java_class("org.apache.spark.sql.execution.metric.SQLMetrics").createMetric(context, name)
            metrics[name].set(count)
        self.transaction.registerSQLMetrics(self.session._jsparkSession, scala_map(metrics))

    def listed_files(self) -> Any | None:
        """Return all files with their statistics, a Scala `Seq[AddFile]`; None if they are too many to list."""
        return listed_files(self.snapshot)

    def listed_bytes(self) -> int:
        """Return the total size of the listed files in bytes."""
        return int(self.snapshot.checksumOpt().get().tableSizeBytes())

    def listed_batches(self) -> dict[str, int] | None:
        """Return the table's last batch of each application; None if the transactions are not listed."""
        checksum = self.snapshot.checksumOpt()
        if checksum.isEmpty() or checksum.get().setTransactions().isEmpty():
            return None
        return {taken.appId(): int(taken.version()) for taken in each(checksum.get().setTransactions().get())}

    def last_batch(self, application_id: str) -> int:
        """Return the table's last batch of an application, -1 for none; the transaction depends on it.

        If two processes commit the same batch, the second commit is a conflict.
        """
        listed = self.listed_batches()
        if listed is None:
            return int(self.transaction.txnVersion(application_id))
        self.transaction.readTxn().addOne(application_id)
        return listed.get(application_id, -1)

    def taken(self, application_id: str, number: int) -> Any:
        """Return the action that makes a batch the last one of an application."""
        now = java_class("scala.Option").apply(self.now())
        return java_class(f"{DELTA}.actions.SetTransaction")(application_id, number, now)

    def commit_without_rows(self, application_id: str, number: int) -> None:
        """Make a batch without rows the last one of an application, unless the table has it or a later one."""
        if self.last_batch(application_id) < number:
            self.commit_append(self.taken(application_id, number))

    def commit_append(self, action: Any) -> None:
        """Commit an action as Delta's writer commits an append."""
        append, none = java_class("org.apache.spark.sql.SaveMode").Append, java_class("scala.Option").empty()
        operation = java_class(f"{DELTA}.DeltaOperations$Write")(append, *[none] * 8)
        self.commit(self.sequence(action), operation)

    def commit_merge(self, actions: Iterable[Any]) -> None:
        """Commit actions as Delta's MERGE does; see `commit`."""
        none, nothing = java_class("scala.Option").empty(), self.sequence()
        merge = java_class(f"{DELTA}.DeltaOperations$Merge")
        self.commit(self.sequence(*actions), merge(none, none, none, none, nothing, nothing, nothing))

    def commit(self, actions: Any, operation: Any) -> None:
        """Commit a Scala `Seq` of actions, after a check that the table and the added files still exist.

        `VACUUM` with a short retention deletes files that no commit names yet. Without the check, Delta would commit
        such files, and would also commit to the log of a table that was deleted and created again.

        Raises:
            OperationError: TABLE_REPLACED or FILES_GONE_BEFORE_COMMIT; nothing is committed.
            pyspark.errors.PySparkException: one of Delta's conflicts.
        """
        self._check_same_log()
        # Only actions that add files have this.
        added = [file_name(entry) for entry in log_entries(actions) if "modificationTime" in entry]
        folder = str(self.log.dataPath().toString())
        gone = missing_files(open_storage(folder, self.session), folder, added)
        if gone:
            raise OperationError(FILES_GONE, path=folder, count=len(gone), file=gone[0])
        self.transaction.commit(actions, operation)

    def _check_same_log(self) -> None:
        """Raise TABLE_REPLACED if the log is of a different table, whose versions don't match the transaction."""
        read = self.snapshot.logSegment().deltas().lastOption()
        if read.isEmpty():  # only a checkpoint was read, or the table is new
            return
        status = read.get()
        files = status.getPath().getFileSystem(self.session.sparkContext._jsc.hadoopConfiguration())
        with suppress(Py4JJavaError):  # there is no such file
            found = files.getFileStatus(status.getPath())
            if (found.getLen(), found.getModificationTime()) == (status.getLen(), status.getModificationTime()):
                return
        # Only a log that is freshly read from its files shows the present table.
        java_class(f"{DELTA}.DeltaLog").invalidateCache(self.session._jsparkSession, self.log.dataPath())
        TableVersion(self.session, replace(self.table, table_id=self.table_id)).check_exists()

    def check_exists(self) -> None:
        """Raise Delta's error if there is no table: a commit would create a table without the earlier rows."""
        if self.snapshot.version() < 0:
            DeltaTable.forPath(self.session, str(self.table.path))

    def write(self, rows: DataFrame, *, mode: str, options: Mapping[str, str], partitions: Any) -> Any:
        """Write rows by Delta's command in `transaction`, which may change the columns of the table.

        Args:
            rows: the rows.
            mode: the name of a `SaveMode`.
            options: of Delta's writer.
            partitions: the partition columns, a Scala `Seq`.

        Returns:
            The actions for the commit, a Scala `Seq`.
        """
        none, is_by_name, is_replace = java_class("scala.Option").empty(), False, False
        session = self.session._jsparkSession
        delta_options = java_class(f"{DELTA}.DeltaOptions")(scala_map(options), session.sessionState().conf())
        save_mode = getattr(java_class("org.apache.spark.sql.SaveMode"), mode)
        command = java_class(f"{DELTA}.commands.WriteIntoDelta")(
            self.log, save_mode, delta_options, partitions, scala_map({}), rows._jdf, none, none, is_by_name
        )
        return command.writeAndReturnCommitData(self.transaction, session, none, is_replace).actions()

    def write_files(self, rows: DataFrame) -> Any:
        """Write rows to new files in `transaction`; return the actions that add the files, a Scala `Seq[AddFile]`."""
        return self.transaction.writeFiles(rows._jdf)

    def read_whole_table(self) -> None:
        """Make the commit of `transaction` depend on all files of the table."""
        self.transaction.readWholeTable()

    def track_read(self, files: Any) -> None:
        """Make the commit of `transaction` depend on files, a Scala `Seq[AddFile]`."""
        self.transaction.trackFilesRead(files)

    def read_files(self, condition: Column) -> Any:
        """Find the files that may have rows for a condition by queries over the log; the commit depends on them."""
        frame = self.frame(self.sequence()).where(condition)
        plan = frame._jdf.queryExecution().optimizedPlan()  # constants are folded
        while plan.nodeName() != "Filter" and not plan.children().isEmpty():
            plan = plan.children().head()
        conditions = self.sequence(*([plan.condition()] if plan.nodeName() == "Filter" else []))
        return self.transaction.filterFiles(conditions, True)  # noqa: FBT003 - a JVM call

    def logged(self, files: Any) -> list[LoggedFile]:
        """Return the log entry of each file of a Scala `Seq[AddFile]`, by a single call.

        With column mapping, the statistics use physical names, not the names of the table's columns.
        """
        names_match = self.properties(_MAPPING).get(_MAPPING, "none").lower() == "none"
        return [LoggedFile.read(entry, names_match=names_match) for entry in log_entries(files)]

    def paths(self, files: Any) -> list[str]:
        """Return the absolute path of each file of a Scala `Seq[AddFile]`, as in Spark's `_metadata`.

        Only paths with special characters or outside of the table take further calls to the JVM.
        """
        base = self.log.dataPath().toString()
        absolute = java_class(f"{DELTA}.util.DeltaFileOperations").absolutePath
        folder = str(absolute(base, "x").toUri().toString()).removesuffix("x")
        logged = [entry["path"] for entry in log_entries(files)]
        return [
            folder + path if _PLAIN_PATH.fullmatch(path) else str(absolute(base, path).toUri().toString())
            for path in logged
        ]

    def texts(self, values: Sequence[str]) -> DataFrame:
        """Return texts without line breaks as rows of a local relation, whose column is `value`."""
        listed = java_class("java.util.regex.Pattern").compile("\n").splitAsStream("\n".join(values)).toList()
        strings = java_class("org.apache.spark.sql.Encoders").STRING()
        return DataFrame(self.session._jsparkSession.createDataset(listed, strings).toDF(), self.session)

    def frame(self, files: Any) -> DataFrame:
        """Return the rows in some of the table's files."""
        none = java_class("scala.Option").empty()
        return DataFrame(self.log.createDataFrame(self.snapshot, files, False, none), self.session)  # noqa: FBT003 - a JVM call

    def properties(self, *names: str) -> dict[str, str]:
        """Return the values of the named properties that the table has."""
        found = {name: self.snapshot.metadata().configuration().get(name) for name in names}
        return {name: str(value.get()) for name, value in found.items() if value.isDefined()}

    def now(self) -> int:
        """Return the time of the log's clock, in milliseconds."""
        return int(self.log.clock().getTimeMillis())

    def sequence(self, *items: Any) -> Any:
        """Build a Scala `Seq`."""
        found = java_class("java.util.ArrayList")()
        for item in items:
            found.add(item)
        return java_class("scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()


def listed_files(snapshot: Any) -> Any | None:
    """Return all files of a version with statistics, a Scala `Seq[AddFile]`; None if its checksum has no list."""
    checksum = snapshot.checksumOpt()
    if checksum.isEmpty() or checksum.get().allFiles().isEmpty():
        return None
    return checksum.get().allFiles().get()


def log_entries(files: Any) -> list[dict[str, Any]]:
    """Return the log entry of each file of a Scala `Seq[AddFile]` as parsed JSON."""
    found: list[dict[str, Any]] = json.loads(java_class(f"{DELTA}.util.JsonUtils").mapper().writeValueAsString(files))
    return found


def each(items: Any) -> Iterator[Any]:
    """Yield the items of a Scala collection."""
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()


def row_count(file: Any) -> int | None:
    """Return the number of rows in an `AddFile`, including deleted rows; None if the log does not have it."""
    count = file.numPhysicalRecords()
    return int(count.get()) if count.isDefined() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFile:
    """A file's entry in the log.

    Args:
        statistics: the statistics that Delta collected; empty if it collected none.
        deleted: the number of rows in the file that are deleted from the table.
        size: the size of the file in bytes.
    """

    statistics: Mapping[str, Any]
    deleted: int
    size: int

    @classmethod
    def read(cls, entry: Mapping[str, Any], *, names_match: bool) -> Self:
        """Parse an entry of the log; if names do not match, keep only the number of rows."""
        statistics = json.loads(entry["stats"]) if entry.get("stats") else {}
        return cls(
            statistics=statistics if names_match else {key: statistics[key] for key in (_ROWS,) if key in statistics},
            deleted=int((entry.get("deletionVector") or {}).get("cardinality", 0)),
            size=int(entry["size"]),
        )

    @property
    def rows(self) -> int | None:
        """The number of the table's rows in the file; None if it is unknown."""
        stored = self.statistics.get(_ROWS)
        return None if stored is None else int(stored) - self.deleted


def has_plain_fields(part: Any) -> bool:
    """Return whether no field of a type (as in a schema's JSON), at any depth, has metadata of Delta or Spark."""
    if isinstance(part, list):
        return all(has_plain_fields(item) for item in part)
    if not isinstance(part, dict):
        return True
    inner = (value for key, value in part.items() if key != "metadata")
    return has_plain_metadata(part.get("metadata", {})) and all(has_plain_fields(item) for item in inner)


def has_plain_metadata(metadata: Mapping[str, Any]) -> bool:
    """Return whether a field's metadata contains only its comment and Sluice's own entries."""
    return all(key == _COMMENT or key.startswith(_OURS) for key in metadata)


def in_few_tasks(rows: DataFrame, size: int) -> DataFrame:
    """Read rows of small files in one task; Spark plans a task for each file.

    A task costs some 20 ms of CPU time for its plan and its code, which is more than reading a small file.

    Args:
        rows: the rows.
        size: the size of their files in bytes.
    """
    return rows.coalesce(1) if size <= _MOST_BYTES_OF_ONE_TASK else rows


def read_small_table(
    session: SparkSession, table: TableAddress, *, few_tasks: bool = False, number: int | None = None
) -> DataFrame | None:
    """Return the rows of the newest version of a small table, for a query that runs now and once.

    Delta's own relation lists the files by two queries over the log, to skip files that can't match a filter.

    Args:
        session: the session of the frame.
        table: the table, which exists.
        few_tasks: read the rows as `in_few_tasks` does.
        number: the version to read; None for the newest.

    Returns:
        The rows; None for a large table, where file skipping pays off; for a table with columns or metadata that
        Delta's own relation hides; for a version that is not the newest; and with an untested version of Delta.
    """
    if not can_open(table):
        return None
    with active_session(session):  # the JVM's frame belongs to the thread's session
        version = TableVersion(session, table)
        files = version.listed_files() if number in {None, int(version.snapshot.version())} else None
        if files is None or version.listed_bytes() > _MOST_UNSKIPPED_BYTES:
            return None
        if not has_plain_fields(json.loads(version.snapshot.metadata().schemaString())):
            return None
        rows = version.frame(files)
        return in_few_tasks(rows, version.listed_bytes()) if few_tasks else rows


def read_table(session: SparkSession, table: TableAddress, *, few_tasks: bool = False) -> DataFrame:
    """Return the rows of an existing Delta table for one immediate query; a small table takes no extra jobs."""
    rows = read_small_table(session, table, few_tasks=few_tasks)
    return session.table(table.sql) if rows is None else rows


def read_version(session: SparkSession, path: str, number: int) -> DataFrame:
    """Return the rows of a version for immediate queries; the newest version of a small table takes no extra jobs."""
    rows = read_small_table(session, TableAddress(path=path), number=number)
    return session.read.format("delta").option("versionAsOf", number).load(path) if rows is None else rows


def forget_tables(spark: SparkSession, paths: Iterable[str]) -> None:
    """Remove tables whose files were replaced from Delta's cache in the JVM.

    Args:
        spark: a session of the JVM.
        paths: the folders of the tables.
    """
    path_of = java_class("org.apache.hadoop.fs.Path")
    for path in paths:
        java_class(f"{DELTA}.DeltaLog").invalidateCache(spark._jsparkSession, path_of(path))
