"""A column that a file writer adds to each row, as a value shared by packages that do not import each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A struct column of constants and a hash of the row.

    Args:
        name: its name.
        type_json: its Spark type, as JSON.
        constants_json: the values of the constant fields that are not NULL, as JSON.
        hash_field: the name of the field with the hash.
        hashed: the hashed columns, in hash order.
        key: the column with distinct values in a table, if it is an integer; None for other keys.
    """

    name: str
    type_json: str
    constants_json: str
    hash_field: str
    hashed: tuple[str, ...]
    key: str | None
