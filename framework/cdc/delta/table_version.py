"""A Delta table as it is at one moment, read without asking Spark which files it has.

Delta keeps the list of a table's files beside its last commit while there are few. To read that list takes
milliseconds; Delta's own way takes several Spark jobs for each version of the table, and each batch of a flow makes
a new version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame, SparkSession

from framework.cdc.spark.expression_cache import built_once, java_class

if TYPE_CHECKING:
    from framework.foundation.table_address import TableAddress

DELTA = "org.apache.spark.sql.delta"

_TESTED = frozenset({"4.4.0"})
_MAPPING = "delta.columnMapping.mode"
_ROWS = "numRecords"


def can_open(table: TableAddress) -> bool:
    """Whether a table may be opened so: it lies at a path, and Delta's internals are those that were tested.

    They are no public interface, and a catalog may have other ideas of a commit than its table's log.
    """
    return table.path is not None and _delta_version() in _TESTED


@built_once
def _delta_version() -> str:
    return str(java_class("io.delta.package").VERSION())


class TableVersion:
    """The newest version of a table.

    Args:
        session: whose settings readers take.
        table: the table, which exists at its path (`can_open`).
    """

    def __init__(self, session: SparkSession, table: TableAddress) -> None:
        self.session = session
        self.log = java_class(f"{DELTA}.DeltaLog").forTable(session._jsparkSession, table.path)
        self.transaction = self.log.startTransaction()
        self.snapshot = self.transaction.snapshot()

    def listed_files(self) -> Any | None:
        """All files with their statistics, a Scala `Seq[AddFile]`; None when they are too many to be listed."""
        checksum = self.snapshot.checksumOpt()
        if checksum.isEmpty() or checksum.get().allFiles().isEmpty():
            return None
        return checksum.get().allFiles().get()

    def listed_batches(self) -> dict[str, int] | None:
        """The last batch of each application that the table took; None when they are not listed."""
        checksum = self.snapshot.checksumOpt()
        if checksum.isEmpty() or checksum.get().setTransactions().isEmpty():
            return None
        return {taken.appId(): taken.version() for taken in each(checksum.get().setTransactions().get())}

    def logged(self, files: Any) -> list[LoggedFile]:
        """What the log has of each file of a Scala `Seq[AddFile]`, by one call for all of them.

        A table with mapped columns has statistics by names that are not those of its columns.
        """
        names_match = self.properties(_MAPPING).get(_MAPPING, "none").lower() == "none"
        entries = json.loads(java_class(f"{DELTA}.util.JsonUtils").mapper().writeValueAsString(files))
        return [LoggedFile.read(entry, names_match=names_match) for entry in entries]

    def frame(self, files: Any) -> DataFrame:
        """The rows in some of the table's files."""
        none = java_class("scala.Option").empty()
        return DataFrame(self.log.createDataFrame(self.snapshot, files, False, none), self.session)  # noqa: FBT003 - a call of the JVM's

    def properties(self, *names: str) -> dict[str, str]:
        """Those of these properties that the table has."""
        found = {name: self.snapshot.metadata().configuration().get(name) for name in names}
        return {name: str(value.get()) for name, value in found.items() if value.isDefined()}

    def now(self) -> int:
        """The log's clock, in milliseconds."""
        return int(self.log.clock().getTimeMillis())

    def sequence(self, *items: Any) -> Any:
        """A Scala `Seq`."""
        found = java_class("java.util.ArrayList")()
        for item in items:
            found.add(item)
        return java_class("scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()


def each(items: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFile:
    """What the log tells of a file.

    Args:
        statistics: as Delta collected them; empty when it did not.
        deleted: rows that are in the file, but not in the table any more.
    """

    statistics: Mapping[str, Any]
    deleted: int

    @classmethod
    def read(cls, entry: Mapping[str, Any], *, names_match: bool) -> Self:
        """What an entry of the log says; if names do not match, no more than the number of rows."""
        statistics = json.loads(entry["stats"]) if entry.get("stats") else {}
        return cls(
            statistics=statistics if names_match else {key: statistics[key] for key in (_ROWS,) if key in statistics},
            deleted=int((entry.get("deletionVector") or {}).get("cardinality", 0)),
        )

    @property
    def rows(self) -> int | None:
        """The table's rows in the file; None when that is not told."""
        stored = self.statistics.get(_ROWS)
        return None if stored is None else int(stored) - self.deleted


def read_table(session: SparkSession, table: TableAddress) -> DataFrame:
    """The rows of a Delta table."""
    if can_open(table):
        version = TableVersion(session, table)
        files = version.listed_files()
        if files is not None:
            return version.frame(files)
    return session.table(table.sql)
