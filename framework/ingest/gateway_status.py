"""The status of gateways and their tables, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from framework.foundation.names import QualifiedName
from framework.sources.databases.position import Position
from framework.sources.databases.source_session import LogReach, LogStatus

NEW_SLOT = "sluice ingest resync --all --new-slot"
"""The command that ends a gap of a whole gateway."""


class IngestedState(StrEnum):
    """The state of a table."""

    WAITING = "WAITING"
    """Nothing of its snapshot is committed."""
    SNAPSHOT = "SNAPSHOT"
    CONFIRMING = "CONFIRMING"
    """A snapshot that replaces an earlier one is read; deleted rows are removed when its changes are applied."""
    FOLLOWING = "FOLLOWING"
    """Its snapshot is complete, or was skipped: changes are applied."""
    RESYNC = "RESYNC"
    """A new snapshot is requested; the next update begins it."""
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"
    """Its snapshot was cancelled; changes are applied."""
    GAP = "GAP"
    """Its log lacks changes after the stored position, or has the changes of another table."""
    FAILED = "FAILED"
    """One of its flows failed in its last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """How far the current snapshot of a table is committed.

    Args:
        checkpoint: number of its checkpoint generation; None before the first.
        completed: whether it is complete.
        chunks: committed chunks.
        rows: estimate of their rows.
        percent: of the table's rows; None if the size of the table is unknown.
        remaining_seconds: estimate; None if unknown.
        is_read: whether the last chunk is committed.
    """

    checkpoint: int | None = None
    completed: bool = False
    chunks: int = 0
    rows: int = 0
    percent: float | None = None
    remaining_seconds: float | None = None
    is_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The status of a table.

    Args:
        source: its name at the source.
        target: its copy.
        state: its state.
        generation: number of its snapshot.
        snapshot: the progress of its snapshot.
        lag_bytes: size of the log of the source that is not staged yet, other tables included; None if the database
            does not tell it.
        lag_seconds: the longest time that a change may have waited to be staged; None if unknown.
        error: the condition of the last failure of one of its flows, or of its gap; None without one.
        way_out: the command, or the statement at the source, that ends its gap; None without one.
        children: the tables that inherit from it; its copy does not have their rows.
    """

    source: str
    target: QualifiedName
    state: IngestedState
    generation: int
    snapshot: SnapshotProgress
    lag_bytes: int | None
    lag_seconds: float | None
    error: str | None
    way_out: str | None = None
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The status of a gateway.

    Args:
        name: name of the gateway.
        is_paused: whether it is paused.
        position_noun: the word of the database for the position that it keeps for the gateway; empty if it keeps none.
        position_name: the name of this position in the database.
        log_status: the status of this position in the database; None without a position or an answer.
        reach: how far the staged changes are behind the log, and how long the log after them is kept; None without an
            answer.
        lost_at: when changes begin to be lost if nobody reads them; None if never, or if unknown.
        position: the position up to which changes are staged; None before the first.
        gap: the condition of a gap; None without one.
        is_lost: whether changes are missing because of the gap.
        way_out: the command, or the statement at the source, that ends the gap; None without one.
        refused: the condition why the last update did not get the new position that is still requested; else None.
        error: why the source gave no answer; None if it did.
        waits: the transactions, locks and readers at the source that it waits for, each with the statement that ends
            the wait.
        tables: the tables.
    """

    name: str
    is_paused: bool
    position_noun: str
    position_name: str
    log_status: LogStatus | None
    reach: LogReach | None = None
    lost_at: datetime | None = None
    position: Position | None
    gap: str | None
    is_lost: bool = True
    way_out: str | None
    refused: str | None
    error: str | None
    waits: tuple[str, ...]
    tables: tuple[TableStatus, ...]
