"""Changes at a source that make a table copyable; a dialect writes the statement."""

from __future__ import annotations

from enum import StrEnum


class Mending(StrEnum):
    """A change of a table at its source."""

    ADD_KEY = "add a key"
    """Add a column that identifies the rows."""
    FILL_KEY = "fill the key"
    """Make the columns of a unique index NOT NULL."""
    LOG_OTHER_KEY = "log another key"
    """Make the log identify rows by other columns."""
    STORE_NUMBERS = "store numbers"
    """Store the number of an object in the columns instead of its present name."""
    RENAME_COLUMN = "rename a column"
    """Rename a column so that it differs from all others in more than letter case."""
