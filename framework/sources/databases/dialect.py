"""The port to a kind of database: the interface of a dialect; the engine itself has no code for any database.

`docs/adr/0076-databases-are-read-through-a-dialect.md` explains the purpose of each part. Every dialect passes the
suite `DialectConformance` of `framework.testing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.sources.databases.connections import Connection
    from framework.sources.databases.facts import DialectFacts
    from framework.sources.databases.mendings import Mending
    from framework.sources.databases.options import Options
    from framework.sources.databases.position import Position
    from framework.sources.databases.source_session import Gap, LogName, SourceSession
    from framework.sources.databases.streams.change_log import ChangesRequest
    from framework.sources.databases.streams.snapshot_stream import SnapshotRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The abilities of a kind of database; callers check these, never the name of the dialect.

    Args:
        keeps_position: whether the database keeps a position for each reader, and the log from this position on.
            Otherwise the log is removed by age, whether it was read or not.
        logs_truncates: whether a TRUNCATE of a table is in the log, as one change.
        compares_tables: whether a table can be compared with its copy (`whole_table`).
        logs_every_table: whether the log has all tables of the server, and nothing at the server names those that are
            read. Then `LoggedTables.has_log` and `has_table` are always true, and `drop_position` has nothing to drop.
    """

    keeps_position: bool = False
    logs_truncates: bool = False
    compares_tables: bool = False
    logs_every_table: bool = False


class SparkColumn(Protocol):
    """A column of a source table with its Spark type."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def spark_type(self) -> str:
        """The Spark type, as DDL."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """One read of a source table.

    Args:
        path: the Parquet file with its rows.
        position: the position of the log up to which the rows may have changes.
        shows_copy: whether every earlier transaction had ended, so that the rows include all changes of a copy.
    """

    path: Path
    position: Position
    shows_copy: bool


class WholeTable(Protocol):
    """The rows of a source table at one position, for a comparison with a copy."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key; () if there is none."""
        ...

    def fetch(self, folder: Path) -> SourceRead:
        """Read the table into a new file of the folder, without Spark.

        Raises:
            SourceError: the database can't be read, or a value has no Spark type.
        """
        ...

    def rows(self, spark: SparkSession, read: SourceRead) -> DataFrame:
        """Return the rows of a read."""
        ...

    def doubt(self, read: SourceRead, stored: str) -> str | None:
        """Return why a difference may be a change that the copy does not have yet; None if it can't be one.

        Args:
            read: the rows that were compared.
            stored: the offset up to which the copy has changes, read before the version of the copy that was compared.
        """
        ...


class Dialect(Protocol):
    """A kind of database: a single object without state; methods that need a connection take it as an argument."""

    @property
    def name(self) -> str:
        """The name of the database, for messages."""
        ...

    @property
    def facts(self) -> DialectFacts:
        """The constant facts of the dialect."""
        ...

    @property
    def abilities(self) -> Abilities:
        """The abilities of the database."""
        ...

    @property
    def snapshot_options(self) -> tuple[str, ...]:
        """The names of the options of its snapshots, in addition to the options of every dialect."""
        ...

    @property
    def changes_options(self) -> tuple[str, ...]:
        """The names of the options of its streams of changes, in addition to the options of every dialect."""
        ...

    def open(
        self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None
    ) -> SourceSession:
        """Open a session, see `open_source`.

        Raises:
            SourceError: the database can't be reached, or refuses the login.
        """
        ...

    def spark_columns(self, table: SourceTable, text_columns: Collection[str]) -> Sequence[SparkColumn]:
        """Return the columns of a table with their Spark types.

        Args:
            table: the table.
            text_columns: the columns that are read as text, in the output format of the database.

        Raises:
            UserError: DATABASE_TEXT_COLUMN_UNKNOWN.
        """
        ...

    def unstable_columns(self, table: SourceTable) -> tuple[str, ...]:
        """Return the columns whose text may change without an entry in the log, such as the present name of an object.

        They can't be part of a key: the row with the earlier text would stay in the copy forever.
        """
        ...

    def mending(self, mending: Mending, table: TableName, columns: Sequence[str] = ()) -> str:
        """Return the statement that changes a table so that it can be copied.

        Args:
            mending: the change.
            table: the table.
            columns: the affected columns.
        """
        ...

    def other_log(self, stored: str, log: LogName) -> Gap | None:
        """Detect an offset that was read from another log than the named one; None if the logs are the same.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        ...

    def remembered_gap(self, condition: str, log: LogName) -> Gap | None:
        """Return the gap that the last update found, if the source no longer shows it; else None.

        Args:
            condition: the condition with which the changes failed in the last update.
            log: the log of the changes.
        """
        ...

    def continuity_options(self, known: Mapping[TableName, str]) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """Return the dialect's options for the stream of changes, as lists of names: the recorded facts of tables.

        Args:
            known: the results of `LoggedTables.continuity`.
        """
        ...

    def snapshot(self, options: Options) -> SnapshotRequest:
        """Return the request that the options of a snapshot describe.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        ...

    def changes(self, options: Options) -> ChangesRequest:
        """Return the request that the options of a stream of changes describe.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        ...

    def whole_table(self, connection: Connection, name: TableName) -> WholeTable:
        """Return a table that is read as a whole, at one position.

        Raises:
            SourceError: DATABASE_TABLE_MISSING, or the database can't be read.
        """
        ...
