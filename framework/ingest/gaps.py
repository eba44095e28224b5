"""Gaps: conditions for a log that lacks changes of a whole gateway or of one table, and how each gap ends."""

from __future__ import annotations

from framework.ingest.gateway_status import NEW_SLOT
from framework.sources.databases.dialects import every_facts, gap_end
from framework.sources.databases.tables import quote_identifier

_GAP = "DATABASE_POSITION_LOST."
_TABLE_GAPS = frozenset(
    {
        "INGESTION_TABLE_REPLACED",
        "INGESTION_TABLE_UNPUBLISHED",
        "INGESTION_PARTITIONS_CHANGED",
        "SNAPSHOT_TABLE_REPLACED",
    }
)


def gap_of(condition: str | None) -> str | None:
    """Return a condition if it is a gap of a gateway, else None."""
    return condition if condition is not None and condition.startswith(_GAP) else None


def is_table_gap(condition: str | None) -> bool:
    """Whether a condition means that the log lacks changes of one table."""
    return condition in _TABLE_GAPS or any(condition in each.table_gaps for each in every_facts())


def is_lost(gap: str | None) -> bool:
    """Whether changes are missing because of a gap."""
    end = gap_end(gap)
    return end is None or end.is_lost


def way_out_of(gap: str | None, source: str, tables: str) -> str | None:
    """Return the command or the statement at the source that ends a gap of a table; None if only a code change can.

    Args:
        gap: the condition of the gap.
        source: the table, for a command.
        tables: the name of the list of tables at the source.
    """
    end = gap_end(gap)
    if end is not None:
        return end.statement.format(tables=quote_identifier(tables)) or None
    return NEW_SLOT if gap_of(gap) else f"sluice ingest resync {source}"
