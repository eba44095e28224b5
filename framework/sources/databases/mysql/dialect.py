"""MySQL and MariaDB as a dialect: the port to the catalog, the types, the chunks and the log of this folder.

Each of Spark's processes imports only the modules that it uses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from framework.sources.databases.dialect import Abilities
from framework.sources.databases.mysql.facts import FACTS

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.mendings import Mending
    from framework.sources.databases.mysql.changes_source import ChangesRequest
    from framework.sources.databases.mysql.chunks.snapshot_source import SnapshotRequest
    from framework.sources.databases.mysql.source import MysqlSource
    from framework.sources.databases.mysql.table_copy import SourceTableCopy
    from framework.sources.databases.mysql.values.types import ColumnType
    from framework.sources.databases.options import Options
    from framework.sources.databases.source_session import Gap, LogName
    from framework.sources.databases.tables import SourceTable, TableName


class MysqlDialect:
    """MySQL 8.0.14 and newer, MariaDB 10.5 and newer, by connectorx and the binary log."""

    name = "MySQL or MariaDB"
    facts = FACTS
    abilities = Abilities(logs_truncates=True, compares_tables=True, logs_every_table=True)
    snapshot_options: tuple[str, ...] = ()
    changes_options: tuple[str, ...] = ("serverId",)

    def open(self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None) -> MysqlSource:
        """Open a session."""
        from framework.sources.databases.mysql.source import MysqlSource

        return MysqlSource(connection, read_only=read_only, lock_seconds=lock_seconds)

    def spark_columns(self, table: SourceTable, text_columns: Collection[str]) -> tuple[ColumnType, ...]:
        """Return the columns of a table with their Spark types."""
        from framework.sources.databases.mysql.values.types import check_text_columns, column_types

        check_text_columns(table, text_columns)
        return column_types(table, text_columns)

    def unstable_columns(self, table: SourceTable) -> tuple[str, ...]:
        """Return none: each text is stored as it is."""
        del table
        return ()

    def mending(self, mending: Mending, table: TableName, columns: Sequence[str] = ()) -> str:
        """Return the statement that makes a change."""
        from framework.sources.databases.mysql.tables.mendings import mending_sql

        return mending_sql(mending, table, columns)

    def other_log(self, stored: str, log: LogName) -> Gap | None:
        """Return that a server has one log only."""
        from framework.sources.databases.mysql.stored_position import StoredPosition

        del log
        StoredPosition.from_json(stored)
        return None

    def remembered_gap(self, condition: str, log: LogName) -> Gap | None:
        """Return that the server shows each gap for as long as it lasts."""
        del condition, log
        return None

    def continuity_options(self, known: Mapping[TableName, str]) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """Return nothing: the log names the tables."""
        del known
        return {}

    def snapshot(self, options: Options) -> SnapshotRequest:
        """Return the request that the options of a snapshot describe."""
        from framework.sources.databases.mysql.chunks.snapshot_source import SnapshotRequest

        return SnapshotRequest.of(options)

    def changes(self, options: Options) -> ChangesRequest:
        """Return the request that the options of a stream of changes describe."""
        from framework.sources.databases.mysql.changes_source import ChangesRequest

        return ChangesRequest.of(options)

    def whole_table(self, connection: Connection, name: TableName) -> SourceTableCopy:
        """Return a table that is read as a whole."""
        from framework.sources.databases.mysql.table_copy import SourceTableCopy

        return SourceTableCopy.of(connection, name)


MYSQL: Dialect = MysqlDialect()
