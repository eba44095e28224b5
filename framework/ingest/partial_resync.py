"""Checks of a request that reads only some rows of a table again, before it is recorded."""

from __future__ import annotations

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import UserError
from framework.foundation.storage_port import Storage
from framework.ingest.connections import gateway_connection
from framework.ingest.status import PARTITIONS_CHANGED, gap_of_table, way_out_of
from framework.sources.databases.tables import TableName


def check_condition(gateway: IngestedGateway, table: IngestedTable, where: str) -> None:
    """Refuse a condition that the database rejects; no row is read.

    Args:
        gateway: the gateway.
        table: the table.
        where: one condition in the SQL of the database.

    Raises:
        SourceError: SNAPSHOT_ROW_FILTER_INVALID, or the database can't be read.
    """
    from framework.sources.databases.postgres.boundaries import BoundaryWalker
    from framework.sources.databases.postgres.catalog import read_table
    from framework.sources.databases.postgres.session import Session

    with Session(gateway_connection(gateway)) as session:
        source = read_table(session, TableName(schema=table.source_schema, table=table.source_table))
        BoundaryWalker(session, source, source_identity="", row_filter=where).check_row_filter()


def selected_partitions(storage: Storage, gateway: IngestedGateway, table: IngestedTable) -> str:
    """Return the partitions of a table if the operator was told of rows that came or went with them; empty otherwise.

    A condition can select these rows. Any other gap is about rows that nobody knows.

    Returns:
        The partitions that it has now, as text of the dialect: later ones are not among those of the error.

    Raises:
        UserError: INGESTION_RESYNC_NEEDS_ALL_ROWS for a table with such a gap.
        SourceError: the database can't be read.
    """
    gap = gap_of_table(storage, gateway.name, table.source)
    if gap is None:
        return ""
    if gap != PARTITIONS_CHANGED:
        command = way_out_of(gap, table.source)
        raise UserError("INGESTION_RESYNC_NEEDS_ALL_ROWS", table=table.source, gap=gap, command=command)
    return _present_partitions(gateway, table)


def _present_partitions(gateway: IngestedGateway, table: IngestedTable) -> str:
    from framework.sources.databases.postgres.catalog import read_table
    from framework.sources.databases.postgres.partitions import read_partitions
    from framework.sources.databases.postgres.session import Session

    with Session(gateway_connection(gateway)) as session:
        source = read_table(session, TableName(schema=table.source_schema, table=table.source_table))
        return read_partitions(session, source.relation).to_json()
