"""Checks of a request that reads only some rows of a table again, before it is recorded."""

from __future__ import annotations

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import UserError
from framework.foundation.storage_port import Storage
from framework.ingest.connections import gateway_connection
from framework.ingest.status import PARTITIONS_CHANGED, gap_of_table, way_out_of
from framework.sources.databases.tables import TableName


def check_partial_resync(storage: Storage, gateway: IngestedGateway, table: IngestedTable, where: str) -> str:
    """Refuse a condition that the database rejects, or one for a table with rows that nobody knows; no row is read.

    A condition can select rows that came or went with partitions, of which the operator was told.

    Args:
        storage: the storage of the pipeline.
        gateway: the gateway.
        table: the table.
        where: one condition in the SQL of the database.

    Returns:
        The partitions that the table has now, as text of the dialect, if partitions came or went: later ones are not
        among those of the error. Empty for a table without such a gap.

    Raises:
        UserError: INGESTION_RESYNC_NEEDS_ALL_ROWS for a table with any other gap.
        SourceError: SNAPSHOT_ROW_FILTER_INVALID, or the database can't be read.
    """
    gap = gap_of_table(storage, gateway.name, table.source)
    if gap is not None and gap != PARTITIONS_CHANGED:
        command = way_out_of(gap, table.source)
        raise UserError("INGESTION_RESYNC_NEEDS_ALL_ROWS", table=table.source, gap=gap, command=command)
    partitions = _checked_by_database(gateway, table, where)
    return "" if gap is None else partitions


def _checked_by_database(gateway: IngestedGateway, table: IngestedTable, where: str) -> str:
    """Let the database check a condition, and return the partitions of the table."""
    from framework.sources.databases.postgres.boundaries import BoundaryWalker
    from framework.sources.databases.postgres.catalog import read_table
    from framework.sources.databases.postgres.partitions import read_partitions
    from framework.sources.databases.postgres.session import Session

    with Session(gateway_connection(gateway)) as session:
        source = read_table(session, TableName(schema=table.source_schema, table=table.source_table))
        BoundaryWalker(session, source, source_identity="", row_filter=where).check_row_filter()
        return read_partitions(session, source.relation).to_json()
