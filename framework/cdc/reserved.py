"""The names that AUTO CDC keeps for itself."""

from __future__ import annotations

HIDDEN_COLUMN = "__sluice"
"""The one struct column of a target that is ours; pipeline reads do not show it."""

COMPANION_PREFIX = "__sluice_cdc_"
"""A companion table is called as its target with this in front."""

RESERVED_PREFIX = "__sluice"
"""No column of a user's may begin with this, in any case."""

METADATA_KEY = "sluice.cdc"
"""Where the hidden column's field metadata says how the table is kept (keys, SCD type)."""

SEQUENCE = "sequence"
ONCE = "once"
CONTENT = "content"
