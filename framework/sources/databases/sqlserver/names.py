"""Names and literals for T-SQL."""

from __future__ import annotations

from framework.sources.databases.tables import TableName


def bracket(name: str) -> str:
    """Return an identifier in brackets.

    Examples:
        >>> bracket("a]b")
        '[a]]b]'
    """
    return f"[{name.replace(']', ']]')}]"


def quoted(name: TableName) -> str:
    """Return a table's name, both parts in brackets."""
    return f"{bracket(name.schema)}.{bracket(name.table)}"


def literal(text: str) -> str:
    """Return a text as a literal, for a statement that a user runs.

    Examples:
        >>> literal("it's")
        "N'it''s'"
    """
    return "N'" + text.replace("'", "''") + "'"


def marks(count: int) -> str:
    """Return so many `?`, with commas."""
    return ", ".join("?" * count)
