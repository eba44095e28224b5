"""The names of the database formats, and the options that both formats have for every dialect."""

from __future__ import annotations

SNAPSHOT_FORMAT, CHANGES_FORMAT = "database_snapshot", "database_changes"
SNAPSHOT_FORMATS = (SNAPSHOT_FORMAT, "postgres_snapshot")
"""The format of snapshots, and its other names."""
CHANGES_FORMATS = (CHANGES_FORMAT, "postgres_changes")
"""The format of changes, and its other names."""

SNAPSHOT_OPTIONS = (
    "connection",
    "connectionsFolder",
    "table",
    "columns",
    "textColumns",
    "rowFilter",
    "chunkBytes",
    "maxChunksPerTrigger",
    "generation",
    "slot",
    "publication",
    "identity",
    "reader",
)
CHANGES_OPTIONS = (
    "connection",
    "connectionsFolder",
    "slot",
    "publication",
    "tables",
    "textColumns",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "generation",
    "spoolFolder",
    "advanceTo",
    "unreadableRows",
    "identities",
    "notAfter",
    "snapshots",
    "servers",
    "historyTables",
    "keys",
    "reader",
)
