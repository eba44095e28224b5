"""The names that are reserved for AUTO CDC."""

from __future__ import annotations

HIDDEN_COLUMN = "__sluice"
"""The struct column of a target that AUTO CDC adds; reads in a pipeline do not return it."""

AUXILIARY_PREFIX = "__sluice_cdc_"
"""Prefix of the name of an auxiliary table; the rest is the name of its target."""

RESERVED_PREFIX = "__sluice"
"""Prefix that no user column may have, in any case."""

FILE_METADATA = "_metadata"
"""Spark's metadata column with a row's file and its row number in that file."""

METADATA_KEY = "sluice.cdc"
"""Key in the hidden column's field metadata; its value has the table's keys and SCD type, and `SOFT_DELETES_KEY`."""

SOFT_DELETES_KEY = "soft_deletes"
"""Key in that value: the column that flags deleted rows; absent if deleted rows are removed."""

# Fields of the hidden column.
SEQUENCE = "sequence"
ONCE = "once"
CONTENT = "content"
AUTHORS = "authors"
STARTED = "started"
ENDED = "ended"
DELETED = "deleted"

# Fields of the auxiliary table's struct column, besides the point of the event.
OPERATION_KIND = "operation"
RECORDED_AT = "recorded_at"

TOMBSTONE = "__sluice_tombstone"
"""Column of a batch's latest events: the newest delete of the key in the batch, if it must be recorded."""

RECORDED = "__sluice_recorded"
"""Column of a batch's latest events: the newest recorded delete of the key, or the latest recorded truncate."""

START_AT = "__START_AT"
END_AT = "__END_AT"
