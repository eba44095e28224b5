"""What somebody can change at a source so that a table can be copied; a dialect writes the statement."""

from __future__ import annotations

from enum import StrEnum


class Mending(StrEnum):
    """A change of a table at its source."""

    ADD_KEY = "add a key"
    """A column that identifies its rows."""
    FILL_KEY = "fill the key"
    """Columns of a unique index never have NULL."""
    LOG_OTHER_KEY = "log another key"
    """The log identifies rows by other columns."""
    STORE_NUMBERS = "store numbers"
    """Columns store the number of an object, and not its present name."""
    RENAME_COLUMN = "rename a column"
    """A column gets a name that differs from all others in more than letter case."""
