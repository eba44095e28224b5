"""The basis of a plan of chunks: what must stay as it is until the last chunk is read."""

from __future__ import annotations

from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import ChunkKind, KeyColumn, PlanBasis, plan_fault, refuse_other_table
from framework.sources.databases.sqlserver.log.stored_position import read_identity
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.tables.catalog import read_collations
from framework.sources.databases.tables import KeyKind, SourceTable, TableName


def plan_basis(session: Session, table: SourceTable, *, generation: int, continuity: str, position: int) -> PlanBasis:
    """Return the basis of a plan that is made now; a table without a key is one chunk.

    Raises:
        SourceError: the database can't be read.
    """
    collations = read_collations(session, table.name)
    found = [table.column(name) for name in table.key]
    key = tuple(
        KeyColumn(name=each.name, type_name=each.type_name, collation=collations.get(each.name), nullable=each.nullable)
        for each in found
    )
    return PlanBasis(
        kind=ChunkKind.KEY if table.key_kind is not KeyKind.NONE else ChunkKind.WHOLE,
        source_identity=str(read_identity(session)),
        storage_id="",
        key=key,
        generation=generation,
        continuity=continuity,
        position=position,
        columns=tuple((each.name, each.identity.number) for each in table.columns),
        stamps=tuple((each.name, each.identity.stamp) for each in table.columns),
        horizon=table.identity,
    )


def refuse_other_plan(table: TableName, planned: PlanBasis, now: PlanBasis) -> None:
    """Refuse a plan that the table no longer fits.

    Raises:
        SourceError: SNAPSHOT_SOURCE_CHANGED, SNAPSHOT_TABLE_REPLACED, SNAPSHOT_PLAN_INVALID.
    """
    if planned.source_identity != now.source_identity:
        raise SourceError(
            "SNAPSHOT_SOURCE_CHANGED", table=table, planned=planned.source_identity, found=now.source_identity
        )
    refuse_other_table(table, planned.horizon, now.horizon)
    if (planned.kind, planned.key) != (now.kind, now.key):
        raise plan_fault(table, "its key, or the type or collation of a key column, has changed")
    if planned.generation != now.generation:
        raise plan_fault(table, "its generation has changed")
    before = dict(planned.columns)
    for name, number in now.columns:
        if before.get(name, number) != number:
            raise plan_fault(table, f"the column {name} is another one than that of the chunks before")
