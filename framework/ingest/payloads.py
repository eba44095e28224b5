"""Payloads of staged changes as columns: the options of `from_json`, and names for Spark SQL."""

from __future__ import annotations

_CORRUPT_RECORD = "_corrupt_record"
_MOST_CHARACTERS = 2**31 - 1


def payload_options(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the options of `from_json` for payloads with these columns.

    A value that its column can't hold fails: a null would be a loss that nobody sees. Spark takes a column of the name
    of corrupt records for its own, and sets it to null. Its limit for a text is below that of PostgreSQL.
    """
    return {
        "mode": "FAILFAST",
        "columnNameOfCorruptRecord": free_name(_CORRUPT_RECORD, columns),
        "maxStringLen": str(_MOST_CHARACTERS),
    }


def free_name(name: str, taken: tuple[str, ...]) -> str:
    """Return a name that no column has, in any case of letters."""
    lower = {column.lower() for column in taken}
    while name in lower:
        name = f"_{name}"
    return name


def quoted_column(column: str) -> str:
    """Return a column in backticks."""
    return f"`{column.replace('`', '``')}`"
