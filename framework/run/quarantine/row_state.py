"""The states of quarantined rows."""

from __future__ import annotations

from enum import StrEnum


class RowState(StrEnum):
    """The state of a quarantined row.

    `OPEN` rows can be replayed. The batch of an `UNCOMMITTED` row is not committed: the next update runs it again, and
    decides the row anew. A full refresh has read the source of a `SUPERSEDED` row again, or its checkpoint is deleted.
    """

    OPEN = "open"
    REPLAYED = "replayed"
    UNCOMMITTED = "uncommitted"
    SUPERSEDED = "superseded"
