"""The names that AUTO CDC keeps for itself."""

from __future__ import annotations

HIDDEN_COLUMN = "__sluice"
"""The one struct column of a target that is ours; pipeline reads do not show it."""

COMPANION_PREFIX = "__sluice_cdc_"
"""A companion table is called as its target with this in front."""

RESERVED_PREFIX = "__sluice"
"""No column of a user's may begin with this, in any case."""

FILE_METADATA = "_metadata"
"""Spark's column with a row's file and its number in there."""

METADATA_KEY = "sluice.cdc"
"""Where the hidden column's field metadata says how the table is kept (keys, SCD type)."""

# Fields of the hidden column.
SEQUENCE = "sequence"
ONCE = "once"
CONTENT = "content"
AUTHORS = "authors"
STARTED = "started"
ENDED = "ended"
DELETED = "deleted"

# Fields of the companion table's own column, besides the point of the event.
OPERATION_KIND = "operation"
RECORDED_AT = "recorded_at"

TOMBSTONE = "__sluice_tombstone"
"""Column of a batch's latest events: the newest delete of the key in the batch, if it must be recorded."""

RECORDED = "__sluice_recorded"
"""Column of a batch's latest events: the newest recorded delete of the key, or the latest recorded truncate."""

START_AT = "__START_AT"
END_AT = "__END_AT"
