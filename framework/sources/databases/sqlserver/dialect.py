"""SQL Server as a dialect: the port to the catalog, the types, the chunks and the changes of this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from framework.sources.databases.dialect import Abilities
from framework.sources.databases.sqlserver.facts import FACTS

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.facts import DialectFacts
    from framework.sources.databases.mendings import Mending
    from framework.sources.databases.options import Options
    from framework.sources.databases.source_session import Gap, LogName
    from framework.sources.databases.sqlserver.chunks.snapshot_request import SnapshotRequest
    from framework.sources.databases.sqlserver.log.changes_source import ChangesRequest
    from framework.sources.databases.sqlserver.session import Connect, Session
    from framework.sources.databases.sqlserver.source import SqlServerSource
    from framework.sources.databases.sqlserver.table_copy import SourceTableCopy
    from framework.sources.databases.sqlserver.values.types import ColumnType
    from framework.sources.databases.tables import SourceTable, TableName


def connect_by_driver(connection: Connection) -> Session:
    """Open a session by mssql-python.

    Raises:
        SourceError: the server is unreachable or refuses the login.
    """
    from framework.sources.databases.sqlserver.session import DriverSession

    return DriverSession(connection)


class SqlServerDialect:
    """SQL Server 2016 and newer, and Azure SQL.

    Args:
        connect: opens a session.
        facts: its facts; a stand-in has no drivers.
    """

    name = "SQL Server"
    abilities = Abilities(compares_tables=True)
    snapshot_options: tuple[str, ...] = ()
    changes_options: tuple[str, ...] = ()

    def __init__(self, connect: Connect = connect_by_driver, facts: DialectFacts = FACTS) -> None:
        self._connect = connect
        self.facts = facts

    def open(
        self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None
    ) -> SqlServerSource:
        """Open a session; T-SQL has no read-only transactions."""
        del read_only
        from framework.sources.databases.sqlserver.source import SqlServerSource

        return SqlServerSource(self._connect, connection, lock_seconds=lock_seconds)

    def spark_columns(self, table: SourceTable, text_columns: Collection[str]) -> tuple[ColumnType, ...]:
        """Return the columns of a table with their Spark types."""
        from framework.sources.databases.sqlserver.values.types import check_text_columns, column_types

        check_text_columns(table, text_columns)
        return column_types(table, text_columns)

    def unstable_columns(self, table: SourceTable) -> tuple[str, ...]:
        """Return that no type has the present name of an object."""
        del table
        return ()

    def mending(self, mending: Mending, table: TableName, columns: Sequence[str] = ()) -> str:
        """Return the statement that makes a change."""
        from framework.sources.databases.sqlserver.tables.mendings import mending_sql

        return mending_sql(mending, table, columns)

    def other_log(self, stored: str, log: LogName) -> Gap | None:
        """Return that a database has one log; the way it is read is compared with the connection, in `find_gap`."""
        del log
        from framework.sources.databases.sqlserver.log.stored_position import StoredPosition

        StoredPosition.from_json(stored)
        return None

    def remembered_gap(self, condition: str, log: LogName) -> Gap | None:
        """Return that the database shows each gap for as long as it lasts."""
        del condition, log
        return None

    def continuity_options(self, known: Mapping[TableName, str]) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """Return that the object ids are enough."""
        del known
        return {}

    def snapshot(self, options: Options) -> SnapshotRequest:
        """Return the request that the options of a snapshot describe."""
        from framework.sources.databases.sqlserver.chunks.snapshot_request import SnapshotRequest

        return SnapshotRequest.of(options, self._connect)

    def changes(self, options: Options) -> ChangesRequest:
        """Return the request that the options of a stream of changes describe."""
        from framework.sources.databases.sqlserver.log.changes_source import ChangesRequest

        return ChangesRequest.of(options, self._connect)

    def whole_table(self, connection: Connection, name: TableName) -> SourceTableCopy:
        """Return a table that is read as a whole."""
        from framework.sources.databases.sqlserver.table_copy import SourceTableCopy

        return SourceTableCopy.of(self._connect, connection, name)


SQLSERVER: Dialect = SqlServerDialect()
