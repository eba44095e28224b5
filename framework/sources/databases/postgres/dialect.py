"""PostgreSQL as a dialect: the port to the catalog, the types, the chunks and the log of this folder.

Each of Spark's processes imports only the modules that it uses: all of them would cost 40 ms of CPU time per stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from framework.sources.databases.dialect import Abilities
from framework.sources.databases.postgres.facts import FACTS

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.mendings import Mending
    from framework.sources.databases.options import Options
    from framework.sources.databases.postgres.chunks.snapshot_source import SnapshotRequest
    from framework.sources.databases.postgres.log.changes_source import ChangesRequest
    from framework.sources.databases.postgres.source import PostgresSource
    from framework.sources.databases.postgres.table_copy import SourceTableCopy
    from framework.sources.databases.postgres.values.types import ColumnType
    from framework.sources.databases.source_session import Gap, LogName
    from framework.sources.databases.tables import SourceTable, TableName


_PUBLICATION = "DATABASE_POSITION_LOST.PUBLICATION"


class PostgresDialect:
    """PostgreSQL 13 and newer, by ADBC and logical replication."""

    name = "PostgreSQL"
    facts = FACTS
    abilities = Abilities(keeps_position=True, logs_truncates=True, compares_tables=True)
    snapshot_options: tuple[str, ...] = ()
    changes_options: tuple[str, ...] = ("partitions", "emptyPartitions", "partitionsSince")

    def open(
        self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None
    ) -> PostgresSource:
        """Open a session."""
        from framework.sources.databases.postgres.source import PostgresSource

        return PostgresSource(connection, read_only=read_only, lock_seconds=lock_seconds)

    def spark_columns(self, table: SourceTable, text_columns: Collection[str]) -> tuple[ColumnType, ...]:
        """Return the columns of a table with their Spark types."""
        from framework.sources.databases.postgres.values.types import check_text_columns, column_types

        check_text_columns(table, text_columns)
        return column_types(table, text_columns)

    def unstable_columns(self, table: SourceTable) -> tuple[str, ...]:
        """Return the columns whose values are names of objects."""
        from framework.sources.databases.postgres.tables.mendings import unstable_columns

        return unstable_columns(table)

    def mending(self, mending: Mending, table: TableName, columns: Sequence[str] = ()) -> str:
        """Return the statement that makes a change."""
        from framework.sources.databases.postgres.tables.mendings import mending_sql

        return mending_sql(mending, table, columns)

    def other_log(self, stored: str, log: LogName) -> Gap | None:
        """Detect an offset of another slot or publication."""
        from framework.sources.databases.postgres.log.position_check import StoredPosition, other_slot_gap

        return other_slot_gap(StoredPosition.from_json(stored), log.position, log.tables)

    def remembered_gap(self, condition: str, log: LogName) -> Gap | None:
        """Return the gap of a publication that lacked operations, because it may send all operations again by now."""
        from framework.sources.databases.source_session import Gap

        if condition != _PUBLICATION:
            return None
        return Gap(condition=condition, fields={"slot": log.position, "publication": log.tables, "lsn": "unknown"})

    def continuity_options(self, known: Mapping[TableName, str]) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """Return the options `partitions`, `emptyPartitions` and `partitionsSince`, with oids."""
        from framework.sources.databases.postgres.tables.continuity import Continuity
        from framework.sources.databases.postgres.tables.partitions import Partitions

        texts = {(name.schema, name.table): Continuity.of(text).partitions for name, text in known.items()}
        compared = {name: Partitions.from_json(text) for name, text in texts.items() if text}
        return {
            "partitions": [(*name, oid) for name, found in compared.items() for oid in found.files],
            "emptyPartitions": [(*name, oid) for name, found in compared.items() for oid in found.empty],
            "partitionsSince": [(*name, found.oldest) for name, found in compared.items()],
        }

    def snapshot(self, options: Options) -> SnapshotRequest:
        """Return the request that the options of a snapshot describe."""
        from framework.sources.databases.postgres.chunks.snapshot_source import SnapshotRequest

        return SnapshotRequest.of(options)

    def changes(self, options: Options) -> ChangesRequest:
        """Return the request that the options of a stream of changes describe."""
        from framework.sources.databases.postgres.log.changes_source import ChangesRequest

        return ChangesRequest.of(options)

    def whole_table(self, connection: Connection, name: TableName) -> SourceTableCopy:
        """Return a table that is read as a whole."""
        from framework.sources.databases.postgres.table_copy import SourceTableCopy

        return SourceTableCopy.of(connection, name)


POSTGRES: Dialect = PostgresDialect()
