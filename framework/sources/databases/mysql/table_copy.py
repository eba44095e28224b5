"""A table of MySQL or MariaDB, read at one position into a file, and what the log has after the position of a copy."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.parquet as pq

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.dialect import SourceRead
from framework.sources.databases.mysql.changes_source import ChangesRequest
from framework.sources.databases.mysql.chunks.row_readers import read_slowly
from framework.sources.databases.mysql.faults import named_errors, quoted, table_sql
from framework.sources.databases.mysql.history import LogHistory, server_id_of
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.position import read_log_end, safe_position
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.mysql.tables.catalog import read_table
from framework.sources.databases.mysql.values.types import column_types
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.spool import Spool
from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WAIT_SECONDS, _POLL_SECONDS = 10.0, 0.05
_READER = "reconcile"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTableCopy:
    """The rows of a source table at one position.

    The whole table is read in one transaction with one snapshot, so its rows are consistent despite concurrent writes.

    Args:
        connection: to the source.
        name: the table.
        table: its columns and its key.
        clock: for waiting.
    """

    connection: Connection
    name: TableName
    table: SourceTable
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def of(cls, connection: Connection, name: TableName) -> Self:
        """Find a table of a database.

        Raises:
            SourceError: DATABASE_TABLE_MISSING, or the database can't be read.
        """
        with Session(connection) as session:
            return cls(connection=connection, name=name, table=read_table(session, name))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key; () if there is none."""
        return self.table.key

    def fetch(self, folder: Path) -> SourceRead:
        """Read the table into a new file of the folder, without Spark.

        Raises:
            SourceError: the database can't be read, or a value has no Spark type.
        """
        path = folder / "source.parquet"
        with Session(self.connection) as session:
            end = read_log_end(session)
            shows_copy = self._wait_for_commits(session, end)
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            # The end of the log is read after the snapshot, so no commit that the snapshot shows is after it.
            position = read_log_end(session)
            self._write(session, path)
            session.execute("ROLLBACK")
        return SourceRead(path=path, position=StoredPosition(place=position, source="").position, shows_copy=shows_copy)

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
        if not read.shows_copy:
            return "A transaction at the source was being committed for long. Compare again after its end."
        try:
            return self._unapplied(read, StoredPosition.from_json(stored))
        except SourceError as error:
            return f"The log could not be read after the position of the copy: {error.what}"

    def _unapplied(self, read: SourceRead, stored: StoredPosition) -> str | None:
        """Return a sentence if the log has changes of the table after the position of the copy."""
        if self.name not in stored.tables:
            return f"The flow of the copy does not read the changes of {self.name}."
        with Session(self.connection) as session:
            begin = LogHistory(session, _READER).require(stored)
        place = LogPlace.parse(read.position.text, begin.place.epoch)
        if not begin.place < place:
            return None
        request = ChangesRequest(
            connection=self.connection,
            name=_READER,
            tables=(self.name,),
            text_columns={},
            limit=ReadLimit(),
            generation=0,
            spool_folder=None,
            advance_to=0,
            keeps_unreadable=True,
            not_after=0,
            snapshots=(),
            keys={},
            reader=_READER,
            # Another reader with the same number would be disconnected.
            server_id=server_id_of(_READER, self.name, os.getpid()),
        )
        with (
            tempfile.TemporaryDirectory(prefix="sluice-reconcile-") as folder,
            closing(request.log(lambda: Spool(Path(folder)))) as log,
        ):
            batch = log.read_range(begin.to_json(), replace(begin, place=place).to_json())
        if not batch.rows:
            return None
        behind = f"The copy is behind: it has the changes up to {stored.place.text}, the source was read at"
        return f"{behind} {place.text}, and the log has {batch.rows:,} changes of the table between them."

    def _wait_for_commits(self, session: Session, end: LogPlace) -> bool:
        """Wait until all transactions in the log up to a place are visible; return whether they are."""
        deadline = self.clock.monotonic() + _WAIT_SECONDS
        try:
            while safe_position(session, clock=self.clock).place < end:
                if self.clock.monotonic() > deadline:
                    return False
                self.clock.sleep(_POLL_SECONDS)
        except SourceError as error:
            if error.condition != "MYSQL_COMMITS_PENDING":
                raise
            return False
        return True

    def _write(self, session: Session, path: Path) -> None:
        """Write the rows as Parquet; columns have neutral names, because any character may be in a name."""
        types = [column.as_moment_text().widened() for column in column_types(self.table)]
        schema = pa.schema([(f"c{place}", column.arrow_type) for place, column in enumerate(types)])
        selected = ", ".join(column.select_expression(quoted(column.name)) for column in types)
        query = f"SELECT {selected} FROM {table_sql(self.name)}"
        with (
            named_errors(self.connection, table=self.name, account=session.account),
            pq.ParquetWriter(path, schema, compression="zstd") as writer,
        ):
            for batch in read_slowly(session, query):
                arrays = [column.from_arrow(array) for column, array in zip(types, batch.columns, strict=True)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
