"""A table of SQL Server, read as a whole into a file, and the changes that the log has after the position of a copy.

With change tracking, the table is read in one snapshot. With change data capture, it is read with locks, as chunks are:
it has each commit before the read, and perhaps some that came meanwhile. So a difference is certain only if the log has
no change of the table after the position of the copy, up to a commit after the read.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.parquet as pq

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import SourceError
from framework.sources.databases.dialect import SourceRead
from framework.sources.databases.sqlserver.chunks.chunk_sql import chunk_select
from framework.sources.databases.sqlserver.connecting import CAPTURE, TRACKING, changes_way
from framework.sources.databases.sqlserver.log.changes_source import ChangesRequest
from framework.sources.databases.sqlserver.log.stored_position import StoredPosition, position_at, read_end
from framework.sources.databases.sqlserver.log.wanted_tables import WantedTables
from framework.sources.databases.sqlserver.names import quoted
from framework.sources.databases.sqlserver.tables.catalog import read_table
from framework.sources.databases.sqlserver.tables.object_ids import find_object_ids
from framework.sources.databases.sqlserver.values.types import column_types
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.spool import Spool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.sources.databases.connections import Connection
    from framework.sources.databases.sqlserver.session import Connect, Session
    from framework.sources.databases.tables import SourceTable, TableName

# The capture job looks at the log every five seconds by default.
_WAIT_SECONDS, _POLL_SECONDS = 15.0, 0.5
_READER = "reconcile"
_NOW = "SELECT CONVERT(varchar(23), SYSDATETIME(), 126)"
_NOT_CAPTURED = (
    "The capture job has read no commit after the time at which the table was read. Compare again when it has: an idle "
    "database gets an entry every five minutes."
)
_NOT_BEGUN = "The copy has not begun to read the changes of this table. Compare again after the next update."
_CAPTURED = "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_end_time > CONVERT(datetime, ?, 126)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTableCopy:
    """The rows of a source table.

    Args:
        connect: opens a session.
        connection: to the source.
        name: the table.
        table: its columns and its key.
        clock: for waiting.
    """

    connect: Connect
    connection: Connection
    name: TableName
    table: SourceTable
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def of(cls, connect: Connect, connection: Connection, name: TableName) -> Self:
        """Find a table of a database.

        Raises:
            SourceError: DATABASE_TABLE_MISSING, or the database can't be read.
        """
        with connect(connection) as session:
            return cls(connect=connect, connection=connection, name=name, table=read_table(session, name))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key; () if there is none."""
        return self.table.key

    def fetch(self, folder: Path) -> SourceRead:
        """Read the table into a new file of the folder, without Spark.

        Raises:
            SourceError: the database can't be read, or a value has no Spark type.
        """
        path, way = folder / "source.parquet", changes_way(self.connection)
        with self.connect(self.connection) as session:
            if way == TRACKING:
                session.begin_snapshot()
                try:
                    end = read_end(session)
                    self._write(session, path, f"SELECT {self._columns} FROM {quoted(self.name)}")
                finally:
                    session.end()
            else:
                self._write(session, path, chunk_select(self.name, self._columns, "1 = 1"))
                end = read_end(session)
        return SourceRead(path=path, position=position_at(way, end), shows_copy=True)

    def rows(self, spark: SparkSession, read: SourceRead) -> DataFrame:
        """Return the rows of a read."""
        frame = spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(read.path))
        return frame.toDF(*(column.name for column in self.table.columns))

    def doubt(self, read: SourceRead, stored: str) -> str | None:
        """Return why a difference may be a change that the copy does not have yet; None if it can't be one.

        Args:
            read: the rows that were compared.
            stored: the position of the copy, read before the version of the copy that was compared.
        """
        begin = StoredPosition.from_json(stored)
        try:
            with self.connect(self.connection) as session:
                if find_object_ids(session, (self.name,)).get(self.name) not in begin.tables:
                    return _NOT_BEGUN
                if begin.way == CAPTURE and not self._is_captured(session):
                    return _NOT_CAPTURED
            return self._unapplied(read, begin)
        except SourceError as error:
            return f"The log could not be read after the position of the copy: {error.what}"

    def _unapplied(self, read: SourceRead, begin: StoredPosition) -> str | None:
        """Return a sentence if the log has changes of the table after the position of the copy."""
        wanted = WantedTables(
            names=(self.name,), text_columns={}, identities={}, histories=(), keys={}, keeps_unreadable=True
        )
        request = ChangesRequest(
            connect=self.connect,
            connection=self.connection,
            name=_READER,
            wanted=wanted,
            limit=ReadLimit(),
            generation=0,
            spool_folder=None,
            advance_to=0,
            not_after=0,
        )
        with (
            tempfile.TemporaryDirectory(prefix="sluice-reconcile-") as folder,
            closing(request.log(lambda: Spool(Path(folder)))) as log,
        ):
            # Up to now, not to the read: change tracking lists a row under its last change alone.
            batch, _ = log.read_transactions(begin.to_json(), None)
        if not batch.rows:
            return None
        behind = f"The copy is behind: it has the changes up to {begin.position}, the source was read at"
        return f"{behind} {read.position}, and the log has {batch.rows:,} changes of the table after the first."

    def _is_captured(self, session: Session) -> bool:
        """Wait until the capture job has read a commit after the present time; whether it has in time."""
        now = session.rows(_NOW)[0][0]
        deadline = self.clock.monotonic() + _WAIT_SECONDS
        while session.rows(_CAPTURED, [now])[0][0] is None:
            if self.clock.monotonic() > deadline:
                return False
            self.clock.sleep(_POLL_SECONDS)
        return True

    @property
    def _columns(self) -> str:
        return ", ".join(column.select_expression() for column in column_types(self.table))

    def _write(self, session: Session, path: Path, query: str) -> None:
        """Write the rows as Parquet; columns have neutral names, because any character may be in a name."""
        types = column_types(self.table)
        schema = pa.schema([(f"c{place}", column.arrow_type) for place, column in enumerate(types)])
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in session.batches(query, table=self.name):
                arrays = [column.from_arrow(array) for column, array in zip(types, batch.columns, strict=True)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
