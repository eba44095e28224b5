"""PRIMARY KEY and FOREIGN KEY in the DDL text of a schema: informational, not checked by Unity Catalog.

Spark's schema parser does not support them, so they are split off from the columns.
"""

from __future__ import annotations

from framework.declare.sql.cursor import Cursor
from framework.declare.sql_tokens import UnclosedTextError, tokens
from framework.foundation.errors import UserError

_KEYS = (("PRIMARY", "KEY"), ("FOREIGN", "KEY"))
_OF_COLUMN = (("CONSTRAINT",), ("PRIMARY", "KEY"), ("REFERENCES",), ("FOREIGN", "KEY"))
_AFTER = (("COMMENT",), ("NOT", "NULL"), ("DEFAULT",), ("GENERATED",), ("MASK",))


def split_keys(schema: str) -> tuple[str, tuple[str, ...]]:
    """Return a schema's columns, and its keys as written; a text without keys is unchanged.

    Examples:
        >>> split_keys("id INT NOT NULL, CONSTRAINT k PRIMARY KEY (id)")
        ('id INT NOT NULL', ('CONSTRAINT k PRIMARY KEY (id)',))
        >>> split_keys("id INT PRIMARY KEY RELY COMMENT 'x', b INT")
        ("id INT COMMENT 'x', b INT", ('id PRIMARY KEY RELY',))

    Args:
        schema: DDL text.
    """
    columns, keys = [], []
    try:
        for item in Cursor("", schema, 1, tuple(tokens(schema))).items():
            text = item.copy().until()
            if is_key(item):  # other constraints stay with the columns, and so become errors
                keys.append(text)
                continue
            column, key = _split_column(item)
            columns.append(column)
            keys += [key] if key else []
    except (UserError, UnclosedTextError):  # Spark's parser reports the fault
        return schema, ()
    return (", ".join(columns), tuple(keys)) if keys else (schema, ())


def is_key(item: Cursor) -> bool:
    """Whether an item in a table's parentheses is a key, with or without CONSTRAINT and a name in front."""
    item = item.copy()
    if item.accept("CONSTRAINT") and not item.at_end():
        item.identifier()
    return any(item.is_at(*words) for words in _KEYS)


def _split_column(item: Cursor) -> tuple[str, str]:
    """Return a column without its key, and the key with the column's name; empty without a key."""
    name = item.copy().identifier()
    before = item.until(_OF_COLUMN)
    if item.at_end():
        return before, ""
    ahead = item.copy()
    if ahead.accept("CONSTRAINT"):
        ahead.identifier()
    if not any(ahead.is_at(*words) for words in (*_KEYS, ("REFERENCES",))):
        return f"{before} {item.until()}", ""
    key = item.until(_AFTER)
    return " ".join([before, *([] if item.at_end() else [item.until()])]), f"{name} {key}"
