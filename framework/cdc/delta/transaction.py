"""One commit to a Delta table, built from its parts: rows removed by their location, and rows added.

Delta's MERGE reads a table with deletion vectors three times, and shuffles the whole table if keys may be new. Here the
table is read once, and the changes of a batch are decided from this read. ADR 13 has the reasons and the safeguards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.cdc.events.key_bounds import Ranges, key_range, may_contain
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import FILE_METADATA
from framework.engine.delta.deletion_vectors import location_of, removals, write_few_vectors, write_vectors
from framework.engine.delta.new_files import NewFile, added_file, takes_files
from framework.engine.delta.table_version import TableVersion, can_open, each, in_few_tasks, row_count
from framework.engine.delta.transaction_identifiers import Batch
from framework.schema.data_types import plain_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from framework.foundation.table_address import TableAddress

_STATISTICS = "spark.databricks.delta.stats.collect"
_WITH_VECTORS = "delta.enableDeletionVectors"
# These properties need the previous version of each row, which only a MERGE writes.
_REQUIRES_MERGE = ("delta.enableChangeDataFeed", "delta.enableRowTracking")
_COMPUTED_FIELDS = ("delta.identity.", "delta.generationExpression", "CURRENT_DEFAULT")


class Transaction:
    """One version of a table, and a commit that fails if concurrent commits changed the rows that were read.

    Attributes:
        rows_to_read: the number of rows in the files that `rows` reads; None if unknown.
    """

    def __init__(self, version: TableVersion) -> None:
        self._version = version
        self._session = version.session
        self._files: Any = None
        self.rows_to_read: int | None = None
        self._bytes_to_read: int | None = None
        self._has_statistics = False
        self._added: list[Any] = []
        self._removed: list[Any] = []

    @classmethod
    def begin(
        cls, session: SparkSession, table: TableAddress, schema: StructType, *, replacing: bool = True
    ) -> Self | None:
        """Begin a transaction on a table; return None if Delta's own commands must write to it.

        Args:
            session: the session whose settings the commit uses.
            table: the table, which exists.
            schema: the schema of the added rows; a table with other columns, or with computed ones, is unsupported.
            replacing: whether rows are removed too, by their location. This requires a table with deletion vectors
                and without change data feed and row tracking.
        """
        if not can_open(table) or session.conf.get(_STATISTICS, "true") != "true":
            return None
        version = TableVersion(session, table)
        fits = _has_columns(version, schema) and (not replacing or _can_remove_rows(version))
        return cls(version) if fits else None

    def has_applied(self, batch: Batch) -> bool:
        """Return whether the table already has this batch of its application, or a later one."""
        return self._version.last_batch(batch.application_id) >= batch.number

    def rows(self, ranges: Ranges) -> DataFrame:
        """Return the rows with keys in `ranges`, with their `LOCATION`; the commit depends on them. Call it once."""
        condition = key_range(ranges)
        self._read(condition, ranges)
        frame = self._version.frame(self._files)
        # Not by name, because the table may have a column with that name.
        file = frame.metadataColumn(FILE_METADATA)
        location = location_of(file.getField("file_path"), file.getField("row_index"))
        rows = frame.where(condition).select("*", location)
        return rows if self._bytes_to_read is None else in_few_tasks(rows, self._bytes_to_read)

    def has_no_rows(self, ranges: Ranges | None = None) -> bool:
        """Read the whole table, so that the commit depends on it, and return whether it is empty.

        Args:
            ranges: the ranges of the keys that matter, by file statistics; None if all rows matter.
        """
        self._read(F.expr("true") if ranges is None else key_range(ranges), ranges)
        return self.read_nothing

    def takes_files(self) -> bool:
        """Return whether files with the table's columns can be added as they are."""
        return takes_files(self._version)

    def add_files(self, files: Sequence[NewFile]) -> None:
        """Add files in the folder of the table to the commit."""
        self._added += [added_file(self._version, file) for file in files]

    def _read(self, condition: Column, ranges: Ranges | None) -> None:
        """Find the files that may have rows for the condition, and make the commit depend on them."""
        files = self._version.listed_files()
        self._has_statistics = files is not None
        if files is None:
            self._files = self._version.read_files(condition)
            return
        self._version.read_whole_table()
        if ranges is not None:
            kept = [
                (index, file)
                for index, file in enumerate(self._version.logged(files))
                if may_contain(file.statistics, ranges)
            ]
            files = self._version.sequence(*(files.apply(index) for index, _ in kept))
            counts = [file.rows for _, file in kept if file.rows is not None]
            self.rows_to_read = sum(counts) if len(counts) == len(kept) else None
            self._bytes_to_read = sum(file.size for _, file in kept)
        self._files = files
        self._version.track_read(files)

    @property
    def read_nothing(self) -> bool:
        """Whether no file can have rows for the read."""
        return bool(self._files.isEmpty())

    def add(self, rows: DataFrame) -> int:
        """Write rows to new files for the commit, and return their number."""
        added = self._version.write_files(rows)
        self._added += each(added)
        return sum(row_count(file) or 0 for file in each(added))

    def added_rows(self) -> DataFrame:
        """Return the rows added so far, read from their files."""
        return self._version.frame(self._version.sequence(*self._added))

    def added_statistics(self) -> Sequence[Mapping[str, Any]]:
        """Return the file statistics of the files added so far."""
        added = self._version.logged(self._version.sequence(*self._added))
        return [file.statistics for file in added]

    def remove(self, locations: DataFrame | Sequence[Row]) -> None:
        """Mark rows for removal by the commit.

        Args:
            locations: the `LOCATION` of each row to remove: of any number of rows in a column of that name, of few
                rows as values.
        """
        files = self._files
        if isinstance(locations, DataFrame):
            vectors = write_vectors(self._version, files, locations)
        else:
            vectors = write_few_vectors(self._version, files, locations)
        self._removed += removals(self._version, files, vectors, has_statistics=self._has_statistics)

    def commit(self, batch: Batch | None, counts: CdcMetrics) -> None:
        """Commit the added rows and the removals together.

        Args:
            batch: the batch that the table records as applied; None for no transaction identifier.
            counts: the counts for the table's history, which counts upserted rows as inserted if no row is removed.

        Raises:
            pyspark.errors.PySparkException: one of Delta's conflicts.
        """
        version, actions = self._version, [*self._added, *self._removed]
        if batch is not None:
            actions = [version.taken(batch.application_id, batch.number), *actions]
        version.set_metrics(self._metrics(counts))
        version.commit_merge(actions)

    def _metrics(self, counts: CdcMetrics) -> dict[str, int]:
        upserted = "numTargetRowsUpdated" if self._removed else "numTargetRowsInserted"
        return {
            "operationNumSourceRows": counts.rows,
            upserted: counts.upserted,
            "numTargetRowsDeleted": counts.deleted,
        }


def _has_columns(version: TableVersion, schema: StructType) -> bool:
    """Return whether the table has exactly the columns of the rows, and no column is computed."""
    stored = version.columns
    if any(key.startswith(_COMPUTED_FIELDS) for field in stored.fields for key in field.metadata):
        return False
    return _columns(stored) == _columns(schema)


def _columns(schema: StructType) -> list[tuple[str, DataType]]:
    """Return names and types, without nullability."""
    return [(field.name, plain_type(field.dataType)) for field in schema.fields]


def _can_remove_rows(version: TableVersion) -> bool:
    """Return whether the table has deletion vectors, and no property that requires a MERGE."""
    properties = version.properties(_WITH_VECTORS, *_REQUIRES_MERGE)
    vectors = properties.pop(_WITH_VECTORS, "")
    return vectors.lower() == "true" and not any(value.lower() == "true" for value in properties.values())
