"""Faults of a snapshot in chunks that are not plain faults of a database connection."""

from __future__ import annotations

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.chunks import PlanBasis
from framework.sources.databases.tables import TableName


def plan_fault(table: TableName, reason: str) -> SourceError:
    """Return the fault of a plan whose basis is gone."""
    return SourceError("SNAPSHOT_PLAN_INVALID", table=table, reason=reason)


def refuse_other_table(table: TableName, planned: int, found: int) -> None:
    """Refuse a table that has the name of the planned one, but is another one; 0 is an unknown table.

    Raises:
        SourceError: SNAPSHOT_TABLE_REPLACED.
    """
    if planned and found != planned:
        raise SourceError("SNAPSHOT_TABLE_REPLACED", table=table, planned=planned, found=found)


def refuse_rewritten_column(table: TableName, basis: PlanBasis, storage_id: str, column: str, stamp: str) -> None:
    """Refuse a column that was altered since the plan, if the rows were rewritten: its values may be computed anew.

    Args:
        table: of the plan.
        basis: of the plan.
        storage_id: of the table now.
        column: the name of the column.
        stamp: of the column now.

    Raises:
        SourceError: SNAPSHOT_PLAN_INVALID.
    """
    if storage_id != basis.storage_id and stamp != dict(basis.stamps).get(column, stamp):
        raise plan_fault(table, f"the column {column} was altered by a statement that rewrote the rows")


def column_fault(table: TableName, column: str, *, found: str, expected: str) -> SourceError:
    """Return the fault of a column whose Spark type is another one than that of the query."""
    return SourceError(
        "SNAPSHOT_COLUMN_CHANGED", table=table, column=column, found=found.lower(), expected=expected.lower()
    )


def filter_fault(table: TableName, row_filter: str, message: str) -> SourceError:
    """Return the fault of a row filter that PostgreSQL rejects, with PostgreSQL's message."""
    return SourceError("SNAPSHOT_ROW_FILTER_INVALID", table=table, filter=row_filter, message=one_line(message))
