"""The states of quarantined rows."""

from __future__ import annotations

from enum import StrEnum


class RowState(StrEnum):
    """The state of a quarantined row.

    `OPEN` rows can be replayed. `UNCOMMITTED` rows belong to a batch that is not committed: the next update runs it
    again, and decides the row again. `SUPERSEDED` rows were read again by a full refresh, or their checkpoint was
    deleted.
    """

    OPEN = "open"
    REPLAYED = "replayed"
    UNCOMMITTED = "uncommitted"
    SUPERSEDED = "superseded"
