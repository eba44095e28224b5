"""Checks of a request that reads only some rows of a table again, before it is recorded."""

from __future__ import annotations

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import UserError
from framework.foundation.storage_port import Storage
from framework.ingest.connections import open_gateway, source_name
from framework.ingest.copies import PARTITIONS_CHANGED
from framework.ingest.gaps import NEW_SLOT, way_out_of
from framework.ingest.state import GatewayStore
from framework.ingest.status import gap_of_table


def check_partial_resync(storage: Storage, gateway: IngestedGateway, table: IngestedTable, where: str) -> str:
    """Refuse a condition that the database rejects, or one for a table with rows that nobody knows; no row is read.

    A condition can select rows that came or went without an entry in the log, if an error named them: later ones the
    operator does not know.

    Args:
        storage: the storage of the pipeline.
        gateway: the gateway.
        table: the table.
        where: one condition in the SQL of the database.

    Returns:
        The continuity of the table up to which the error of the last update names the rows that came or went. Empty for
        a table without such a gap.

    Raises:
        UserError: INGESTION_RESYNC_NEEDS_ALL_ROWS for a table with any other gap; INGESTION_RESYNC_OF_FILTERED_ROWS.
        SourceError: SNAPSHOT_ROW_FILTER_INVALID, or the database can't be read.
    """
    gap, state = gap_of_table(storage, gateway.name, table.key), GatewayStore(storage).read(gateway.name)
    known = None if state is None else state.table(table.key)
    named = known.named_continuity if known is not None and gap == PARTITIONS_CHANGED else ""
    name = gateway.name_of(table)
    command = NEW_SLOT if way_out_of(gap, name, "") == NEW_SLOT else f"sluice ingest resync {name}"
    if gap is not None and not named:
        raise UserError("INGESTION_RESYNC_NEEDS_ALL_ROWS", table=table.source, gap=gap, command=command)
    copy = None if state is None else state.copy(table.target)
    if copy is not None and copy.definition.row_filter is not None:
        row_filter = copy.definition.row_filter
        raise UserError("INGESTION_RESYNC_OF_FILTERED_ROWS", table=table.source, filter=row_filter, command=command)
    _check_by_database(gateway, table, where)
    return named


def _check_by_database(gateway: IngestedGateway, table: IngestedTable, where: str) -> None:
    """Let the database check a condition."""
    with open_gateway(gateway) as source:
        source.check_filter(source_name(table), where)
