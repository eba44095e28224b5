"""The formats `database_snapshot` and `database_changes` of `spark.readStream`, with their former names.

Spark finds them by name in the session of a pipeline. The scheme of the connection selects the dialect. Its drivers are
imported when a database is read, so a pipeline without a database neither needs them nor waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from framework.engine.plans.relations import streaming_sources
from framework.engine.streams.python_sources import register_python_source
from framework.sources.databases.dialects import dialect_of
from framework.sources.databases.format_names import (
    CHANGES_FORMAT,
    CHANGES_FORMATS,
    CHANGES_OPTIONS,
    SNAPSHOT_FORMAT,
    SNAPSHOT_FORMATS,
    SNAPSHOT_OPTIONS,
)
from framework.sources.databases.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from framework.checkpoints.offsets import CheckpointProgress
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.streams.change_log import ChangesRequest
    from framework.sources.databases.streams.snapshot_stream import SnapshotRequest
    from framework.sources.databases.streams.staged_stream import StagedSnapshotStream
    from framework.sources.staging.place import Staging

CHANGES_SCHEMA = (
    "source_table STRING, operation STRING, generation BIGINT, position BIGINT, ordinal BIGINT, "
    "commit_time TIMESTAMP, schema_version BIGINT, payload STRING"
)


def register_format(spark: SparkSession, name: str) -> None:
    """Register a format in a session and in the sessions cloned from it, if it is a database format.

    Spark's own registration checks the name in the *active* session, and refuses a name that another session has. The
    first registration in a JVM starts a Python process, so a session without databases registers nothing.
    """
    format_class = {each.name(): each for each in _FORMATS}.get(name.lower())
    if format_class is None:
        return
    register_python_source(spark, format_class)


def register_formats(spark: SparkSession, frame: DataFrame) -> None:
    """Register the formats of a streaming query in the session that runs it.

    For a reader with a schema, Spark creates the source when the stream starts, and looks up its format in the session
    of the stream. The function of the query registers the format in the session of the pipeline, perhaps after the
    session of the stream was cloned from it.
    """
    for source in streaming_sources(frame):
        if not source.is_data_source_v1:
            register_format(spark, source.name)


def schema_of_format(name: str | None, options: Mapping[str, str]) -> str | None:
    """Return the columns of a stream of a database format, as DDL; None for another format.

    Raises:
        SluiceError: an option is wrong, or the database can't be read.
    """
    if name in SNAPSHOT_FORMATS:
        return snapshot_request(options, name).schema()
    if name in CHANGES_FORMATS:
        changes_request(options, name)  # checks that its drivers are installed and its options are known
        return CHANGES_SCHEMA
    return None


class DatabaseSnapshot(DataSource):
    """The rows of a table at the time of reading: a stream in chunks, or a batch.

    Options: `connection` (its name), `table` (`schema.table`), `columns` and `textColumns` (lists of names),
    `rowFilter` (a SQL condition), `chunkBytes` (16m to 64m), `maxChunksPerTrigger` (512 MB of chunks),
    `generation` (0), `slot` and `publication` (the same as for the changes of the table, so that the log has every
    change that the snapshot misses), `connectionsFolder` (the working folder).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.readStream.format`."""
        return SNAPSHOT_FORMAT

    def schema(self) -> str:
        """Return the columns of the table with their Spark types, from the catalog of the database."""
        return self._request().schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of chunks."""
        request = self._request()
        from framework.sources.databases.streams.snapshot_stream import SnapshotStreamReader

        analysed = {field.name: field.dataType.simpleString() for field in schema.fields}
        return SnapshotStreamReader(request, tuple(analysed), analysed)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all chunks at once."""
        request = self._request()
        from framework.sources.databases.streams.snapshot_stream import SnapshotBatchReader

        return SnapshotBatchReader(request, tuple(schema.fieldNames()))

    def _request(self) -> SnapshotRequest:
        return snapshot_request(self.options, self.name())


class DatabaseChanges(DataSource):
    """Inserts, updates, deletes and truncates of tables, in the order of their transactions.

    Columns: source_table, operation (INSERT, UPDATE, DELETE, TRUNCATE), generation, position (of the commit), ordinal
    (in the transaction), commit_time, schema_version, and payload: the new row as JSON; for a DELETE, the columns of
    the key.

    Options: `connection` (its name), `slot`, `publication` (default: the name of the slot), `tables` (list of
    `schema.table`), `textColumns` (list of `schema.table.column`), `maxRowsPerTrigger` (1,000,000),
    `maxBytesPerTrigger` (256m), `generation` (0), `spoolFolder` (a temporary folder; on a cluster, one that all
    machines share), `advanceTo` (0; a position that is stored soon after it is passed, even without changes),
    `unreadableRows` (fail; with `keep`, a change with a value that its type can't hold has the operation UNREADABLE and
    the reason as its payload), `keys` (list of `schema.table.column`: a change without a value of one of them is
    unreadable, too), `historyTables` (tables whose copies keep every state of a row: a value that the log left out is
    unreadable unless it certainly belongs to the change), `connectionsFolder` (the working folder).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.readStream.format`."""
        return CHANGES_FORMAT

    def schema(self) -> str:
        """Return the columns of every change, without a query to the database."""
        return CHANGES_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the log."""
        del schema
        request = changes_request(self.options, self.name())
        from framework.sources.databases.streams.changes_stream import ChangesStreamReader

        return ChangesStreamReader(request)


class PostgresSnapshot(DatabaseSnapshot):
    """`database_snapshot` under its original name."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.readStream.format`."""
        return SNAPSHOT_FORMATS[1]


class PostgresChanges(DatabaseChanges):
    """`database_changes` under its original name."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.readStream.format`."""
        return CHANGES_FORMATS[1]


_FORMATS: tuple[type[DataSource], ...] = (DatabaseSnapshot, DatabaseChanges, PostgresSnapshot, PostgresChanges)


def snapshot_request(options: Mapping[str, str], name: str = SNAPSHOT_FORMAT) -> SnapshotRequest:
    """Return the request that the options of a snapshot describe.

    Args:
        options: the options as Spark has them.
        name: the name of the format, for messages.

    Raises:
        UserError: DRIVER_NOT_INSTALLED, DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, DATABASE_OPTION_UNKNOWN,
            or an error of the connection.
    """
    dialect = _dialect(options, name)
    return dialect.snapshot(Options.of(name, options, (*SNAPSHOT_OPTIONS, *dialect.snapshot_options)))


def changes_request(options: Mapping[str, str], name: str = CHANGES_FORMAT) -> ChangesRequest:
    """Return the request that the options of a stream of changes describe.

    Args:
        options: the options as Spark has them.
        name: the name of the format, for messages.

    Raises:
        UserError: as `snapshot_request`.
    """
    dialect = _dialect(options, name)
    return dialect.changes(Options.of(name, options, (*CHANGES_OPTIONS, *dialect.changes_options)))


def _dialect(options: Mapping[str, str], name: str) -> Dialect:
    """Return the dialect of the connection in the options; other options are not checked."""
    known = {each.lower(): each for each in ("connection", "connectionsFolder")}
    given = {known[each.lower()]: value for each, value in options.items() if each.lower() in known}
    return dialect_of(Options(name, given).connection())


def staged_stream(
    spark: SparkSession, options: Mapping[str, str], staging: Staging, progress: CheckpointProgress
) -> StagedSnapshotStream:
    """Return the source of a snapshot whose chunks become files; its offsets have the form of `database_snapshot`.

    Args:
        spark: the session of the query.
        options: the options of `database_snapshot`.
        staging: where the files are written.
        progress: of the checkpoint of the query.

    Raises:
        UserError: as `snapshot_request`.
    """
    request = snapshot_request(options)
    from framework.sources.databases.streams.staged_stream import StagedSnapshotStream

    return StagedSnapshotStream(spark, request, staging, progress)
