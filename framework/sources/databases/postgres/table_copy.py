"""A table of a source database, read at one moment into a file, and what the log has after the position of a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from psycopg2 import errors

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.dialect import SourceRead
from framework.sources.databases.position import Position
from framework.sources.databases.postgres.chunks.chunk_sql import ALIAS, relation_sql, search_path_sql
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.log.position_check import StoredPosition, check_position
from framework.sources.databases.postgres.log.slot_status import read_flushed_end
from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.postgres.session import Session, arrow_connection
from framework.sources.databases.postgres.tables.catalog import read_table
from framework.sources.databases.postgres.values.types import ColumnType, column_types
from framework.sources.databases.tables import SourceTable, TableName, quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WAIT_SECONDS, _POLL_SECONDS, _MARGIN_SECONDS = 10.0, 0.05, 0.5
_WRITER_DELAY = "SELECT setting::float / 1000 FROM pg_settings WHERE name = 'wal_writer_delay'"
_BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# It uses the snapshot of the transaction, so no commit that the snapshot shows is after the position.
_SNAPSHOT = "SELECT pg_current_wal_insert_lsn()::text"
_RUNNING = """
SELECT transactionid::text FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
  AND (pg_locks.pid IS NULL OR datname = current_database())
"""
_IS_PUBLISHED = "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"
# A transaction is decoded at its commit; the commit record ends at the `lsn` of the last message.
_CHANGES_AFTER = """
WITH messages AS (
  SELECT xid, lsn, get_byte(data, 0) AS kind, ('x' || encode(substring(data FROM 2 FOR 4), 'hex'))::bit(32) AS relation
  FROM pg_logical_slot_peek_binary_changes(
    %(slot)s, %(upto)s, NULL, 'proto_version', '1', 'publication_names', %(publication)s)
), later AS (
  SELECT xid FROM messages WHERE kind = ascii('C') AND lsn > %(after)s
)
SELECT count(*) FROM messages JOIN later USING (xid)
WHERE kind = ascii('T') OR (
  kind IN (ascii('I'), ascii('U'), ascii('D')) AND relation = (%(table)s::regclass::oid::bigint)::bit(32))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTableCopy:
    """The rows of a source table at one position.

    The whole table is read in one transaction with one snapshot, so its rows are consistent despite concurrent writes.
    It is read once, into a Parquet file, which both passes of the comparison use.

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
        with Session(self.connection) as session:
            shows_copy = self._wait_for_running(session)
        types = column_types(self.table)
        path = folder / "source.parquet"
        with (
            arrow_connection(self.connection) as opened,
            named_errors(self.connection, table=self.name),
            opened.cursor() as cursor,
        ):
            cursor.execute(_BEGIN)
            cursor.execute(_SNAPSHOT)
            (position,) = cursor.fetchone() or ("0/0",)
            cursor.execute(search_path_sql())
            cursor.execute(self._select(types))
            # As in `ChunkReader`: the public reader raises an OSError for an error in the middle of a COPY.
            _write(cursor._results.reader, types, path)  # type: ignore[union-attr]  # noqa: SLF001 - see above
        found = Position(order=parse_lsn(position), text=position)
        return SourceRead(path=path, position=found, shows_copy=shows_copy)

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
            return "A transaction at the source is open since before the copy was read. Compare again after its end."
        with Session(self.connection) as session:
            try:
                return self._unapplied(session, read.position.order, StoredPosition.from_json(stored))
            except errors.ObjectInUse:
                return "A running update reads the changes, so the copy may be behind. Stop it, or compare again."
            except SourceError as error:
                return f"The log could not be read after the position of the copy: {error.what}"

    def _unapplied(self, session: Session, position: int, stored: StoredPosition) -> str | None:
        """Return a sentence if the log has changes of the table after a position; None if it has none."""
        gap = check_position(session, stored)
        if gap is not None:
            return gap.error().what
        if not session.rows(_IS_PUBLISHED, [stored.publication, self.name.schema, self.name.table]):
            return f"The flow of the copy does not read the changes of {self.name}."
        self._wait_for_flush(session, position)
        arguments = {
            "slot": stored.slot,
            "publication": stored.publication,
            "upto": format_lsn(position),
            "after": format_lsn(stored.lsn),
            "table": self.name.quoted,
        }
        with session.raw.cursor() as cursor:
            try:
                cursor.execute(_CHANGES_AFTER, arguments)
            except errors.ObjectInUse:
                raise
            except errors.Error as error:
                return f"The log could not be read after the position of the copy: {str(error).splitlines()[0]}."
            (count,) = cursor.fetchone()
        if not count:
            return None
        behind = f"The copy is behind: it has the changes up to {format_lsn(stored.lsn)}, the source was read at"
        return f"{behind} {format_lsn(position)}, and the log has {count:,} changes of the table between them."

    def _wait_for_running(self, session: Session) -> bool:
        """Wait until the transactions that run now have ended; return whether they have.

        The log may have a commit that a new snapshot does not show yet. A transaction holds the lock of its id until
        every new snapshot shows it.
        """
        running = set(session.rows(_RUNNING))
        deadline = self.clock.monotonic() + _WAIT_SECONDS
        while running:
            if self.clock.monotonic() > deadline:
                return False
            self.clock.sleep(_POLL_SECONDS)
            running &= set(session.rows(_RUNNING))
        return True

    def _wait_for_flush(self, session: Session, position: int) -> None:
        """Wait until the commits that the snapshot shows are on disk, because only then are they decoded.

        A commit with `synchronous_commit = off` reaches the disk within three rounds of the server's WAL writer.
        Records of open transactions may stay in memory for longer, which does not matter.
        """
        deadline = self.clock.monotonic() + 3 * session.rows(_WRITER_DELAY)[0][0] + _MARGIN_SECONDS
        while self.clock.monotonic() < deadline:
            if read_flushed_end(session) >= position:
                return
            self.clock.sleep(_POLL_SECONDS)

    def _select(self, types: Sequence[ColumnType]) -> str:
        columns = ", ".join(
            f"{column.select_expression(f'{ALIAS}.{quote_identifier(column.name)}')} AS c{place}"
            for place, column in enumerate(types)
        )
        return f"SELECT {columns} FROM {relation_sql(self.name, partitioned=self.table.is_partitioned)} AS {ALIAS}"


def _write(reader: Any, types: Sequence[ColumnType], path: Path) -> None:
    """Write the batches of a query as Parquet; columns have neutral names, because any character may be in a name."""
    schema = pa.schema([(f"c{place}", column.arrow_type) for place, column in enumerate(types)])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in reader:
            arrays = [column.from_arrow(array) for column, array in zip(types, batch.columns, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
