"""Errors that are specific to a snapshot in chunks, in addition to the errors of any database connection."""

from __future__ import annotations

from collections.abc import Mapping

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.chunks import ChunkKind, PlanBasis, plan_fault
from framework.sources.databases.postgres.chunks.chunk_sql import relation_sql
from framework.sources.databases.postgres.tables.continuity import Continuity
from framework.sources.databases.postgres.tables.partitions import (
    Query,
    has_attached_rows,
    is_older,
    present_partitions,
)
from framework.sources.databases.postgres.tables.table_storage import TableStorage
from framework.sources.databases.tables import TableName

_FIRST_BLOCKS = "(100,0)"
"""How many blocks are searched for a row from before the plan; few suffice: a rewritten table has no such row."""


def refuse_rewritten_columns(
    table: TableName,
    basis: PlanBasis,
    stamps: Mapping[str, str],
    *,
    storage_id: str,
    partitioned: bool,
    query: Query,
) -> None:
    """Refuse columns that were altered since the plan, if the rows were rewritten: their values may be recomputed.

    No entry of the catalog distinguishes `SET STATISTICS` and VACUUM FULL from `ALTER COLUMN … TYPE … USING`. But the
    latter stamps all rows with its own transaction, while VACUUM FULL keeps their transactions.

    Args:
        table: of the plan.
        basis: of the plan.
        stamps: the present stamps of the relevant columns.
        storage_id: the present storage of the table.
        partitioned: whether its rows are in partitions.
        query: runs a query at the source.

    Raises:
        SourceError: SNAPSHOT_PLAN_INVALID.
    """
    planned = dict(basis.stamps)
    altered = next((name for name, stamp in stamps.items() if stamp != planned.get(name, stamp)), None)
    if altered is None or storage_id == basis.storage_id:
        return
    # Only tables that are stored in the database itself have an index of the key, and rows with transactions.
    if basis.kind == ChunkKind.KEY and basis.horizon:
        relation = relation_sql(table, partitioned=partitioned)
        older = is_older(f"'{int(basis.horizon)}'::xid8::xid")
        rows = f"SELECT FROM {relation} AS t WHERE t.ctid < '{_FIRST_BLOCKS}'::tid AND {older}"
        if query(f"SELECT EXISTS ({rows})")[0][0]:
            return
    raise plan_fault(
        table, f"the column {altered} was altered and the rows were rewritten since, which may have changed its values"
    )


def refuse_changed_partitions(table: TableName, basis: PlanBasis, storage: TableStorage, query: Query) -> None:
    """Refuse a table if rows came or went with a partition since the last plan, because the log does not have them.

    A partition that was created as one, or attached without rows, is not an error.

    Args:
        table: of the plan.
        basis: of the plan.
        storage: the present storage of the table.
        query: runs a query at the source.

    Raises:
        SourceError: SNAPSHOT_PLAN_INVALID.
    """
    links = Continuity.of(basis.continuity).links
    known, present = {*links}, {*storage.partitions}
    if not basis.horizon or known == present:
        return
    gone = next((link.partition(":")[0] for link in links if link not in present), None)
    if gone is not None:
        raise plan_fault(table, f"its partition with the oid {gone} was detached or dropped")
    for each in present_partitions(query, storage.relation):
        if each.is_leaf and each.link not in known and has_attached_rows(query, table, each):
            raise plan_fault(table, f"{each.name} was attached to it with its rows")


def filter_fault(table: TableName, row_filter: str, message: str) -> SourceError:
    """Return the error of a row filter that PostgreSQL rejects, with PostgreSQL's message."""
    return SourceError("SNAPSHOT_ROW_FILTER_INVALID", table=table, filter=row_filter, message=one_line(message))
